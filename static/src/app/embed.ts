// ?embed: the view alone, for a frame in a notebook or another page. The other page is not trusted: something laid over
// ours may steal a click. So a framed page changes nothing on the server and takes no token.
export const embedded = new URLSearchParams(globalThis.location?.search).has("embed");

const EMBED_HEIGHT = 600; // pixels of a frame, by default

export const frameOf = (address: string, title: string): string => {
  const url = new URL(address);
  url.search = "?embed";
  const quoted = (text: string): string =>
    text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
  return `<iframe src="${quoted(url.href)}" title="${quoted(title)}" width="100%" height="${EMBED_HEIGHT}" style="border:0"></iframe>`;
};
