export default function (view) {
    view.title("overview");
}
