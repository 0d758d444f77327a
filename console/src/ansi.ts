// Colors of terminals in lines of output, as classes. What else a line says to a terminal is left out; the text goes into text nodes alone.

export interface Piece { text: string; class: string }

const colors = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];

const sequence = /\u001b(?:\[([0-9;:?]*)([A-Za-z])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

// splitANSI cuts a line into pieces of one look each.
export function splitANSI(line: string): Piece[] {
  const out: Piece[] = [];
  let look = { color: '', bold: false }, from = 0;
  const add = (text: string) => {
    const clean = text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, '');
    if (clean) out.push({ text: clean, class: [look.color && `ansi-${look.color}`, look.bold && 'ansi-bold'].filter(Boolean).join(' ') });
  };
  for (const match of line.matchAll(sequence)) {
    add(line.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === 'm') look = changeLook(look, match[1]);
  }
  add(line.slice(from));
  return out;
}

function changeLook(look: { color: string; bold: boolean }, codes: string) {
  let out = { ...look };
  for (const text of (codes || '0').split(';')) {
    const code = Number(text);
    if (code === 0) out = { color: '', bold: false };
    else if (code === 1) out.bold = true;
    else if (code === 22) out.bold = false;
    else if (code === 39) out.color = '';
    else if (code >= 30 && code <= 37) out.color = colors[code - 30];
    else if (code >= 90 && code <= 97) out.color = colors[code - 90];
  }
  return out;
}
