export default function (view) {
    view.title("providers");
}
