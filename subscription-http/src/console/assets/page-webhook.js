export default function (view) {
    view.title("webhook");
}
