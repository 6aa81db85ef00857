// Buttons that ask first.

import { dialog, faultsAtFields } from "./dialog.js";
import { button, el } from "./el.js";

// A button and its dialog: `text` says what will happen, `fields()` gives controls, `act(form)` does it, and `then(answer)`
// follows; unless it is given, the page is read again.
export function confirmButton(view, name, { text, fields = () => [], act, then = view.reload, confirm = name, danger, attributes }) {
    return button(name, async () => {
        let answer = null;
        const run = async (form) => { answer = await act(form); };
        if (await dialog({ title: name, confirm, danger, explain: faultsAtFields, act: run, body: [el("p", {}, text), ...fields()] })) await then(answer);
    }, attributes);
}
