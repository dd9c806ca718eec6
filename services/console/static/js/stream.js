// The stream of events. The browser connects again by itself; what is shown meanwhile is marked as old.

const SILENCE_MS = 5000; // queue lengths come four times a second

export function listen(handlers, onState) {
  let source;
  let silence;

  const alive = () => {
    clearTimeout(silence);
    silence = setTimeout(() => {
      onState("lost");
      open(); // the connection looks open, but nothing comes through
    }, SILENCE_MS);
  };

  function open() {
    source?.close();
    source = new EventSource("v1/events");
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => {
        alive();
        if (name === "hello") onState("live");
        handle(JSON.parse(event.data));
      });
    }
    source.addEventListener("error", () => {
      onState("lost");
      clearTimeout(silence);
      // Closed for good, for instance because too many pages are open: ask again later.
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 3000);
    });
    alive();
  }

  open();
}
