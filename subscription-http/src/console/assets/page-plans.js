export default function (view) {
    view.title("plans");
}
