export default function (view) {
    view.title("webhooks");
}
