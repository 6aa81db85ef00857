export default function (view) {
    view.title("search");
}
