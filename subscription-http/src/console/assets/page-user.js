export default function (view) {
    view.title("user");
}
