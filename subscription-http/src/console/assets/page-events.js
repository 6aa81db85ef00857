export default function (view) {
    view.title("events");
}
