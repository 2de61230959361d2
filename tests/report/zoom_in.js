// Choose a part of the time by a button and by dragging, and give it up again.
(async () => {
  const section = document.querySelector("#time"), said = () => section.querySelector(".zoom span").textContent;
  const press = (name) => [...section.querySelectorAll(".zoom button")].find((b) => b.textContent === name).click();
  section.querySelectorAll(".chart")[1].scrollIntoView({ behavior: "instant" });
  while (section.querySelectorAll(".chart canvas").length < 2) await new Promise(requestAnimationFrame);
  const chart = () => section.querySelectorAll(".chart")[1].querySelector("canvas").toDataURL();
  const load = section.querySelectorAll(".chart")[0], box = () => load.getBoundingClientRect();
  const drag = (type, share) => load.dispatchEvent(new PointerEvent(type,
    { clientX: box().left + 110 + share * (box().width - 122), clientY: box().top + 50, pointerId: 1, bubbles: true }));
  load.setPointerCapture = () => {};
  const all = chart(), steps = [];
  press("Zoom in"); steps.push([said(), chart() !== all]);
  press("Later"); steps.push([said(), chart() !== all]);
  press("All"); steps.push([said(), chart() !== all]);
  drag("pointerdown", 0.75); drag("pointerup", 0.5); steps.push([said(), chart() !== all]);
  press("Zoom out"); press("Zoom out"); steps.push([said(), chart() !== all]);
  return steps;
})()
