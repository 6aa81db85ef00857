export default function (view) {
    view.title("subscription");
}
