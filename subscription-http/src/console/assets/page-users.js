export default function (view) {
    view.title("users");
}
