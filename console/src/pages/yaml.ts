// The YAML that the form writes.

export interface Fields { kind: string; name: string; namespace: string; priority: string; image: string; command: string; gpu: string; type: string; pool: string; cpu: string; memory: string }

// plain are texts that YAML takes as they are. All others are written in quotes.
const plain = /^[A-Za-z0-9][A-Za-z0-9._/:@+-]*$/;

function quote(text: string): string {
  return plain.test(text) && !/^(true|false|yes|no|null|on|off)$/i.test(text) && !text.endsWith(':') ? text : JSON.stringify(text);
}

// splitCommand cuts a command into words, as a shell does with quotes.
export function splitCommand(text: string): string[] {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((match) => match[1] ?? match[2] ?? match[3]);
}

export function writeYAML(fields: Fields): string {
  const lines = [`kind: ${quote(fields.kind)}`, '', 'job:', `  name: ${quote(fields.name)}`];
  const add = (indent: string, key: string, value: string) => { if (value) lines.push(`${indent}${key}: ${quote(value)}`); };
  add('  ', 'namespace', fields.namespace);
  add('  ', 'priority', fields.priority);
  lines.push('', 'environment:', `  image: ${quote(fields.image)}`);
  const command = splitCommand(fields.command);
  if (command.length) lines.push(`  command: [${command.map((word) => JSON.stringify(word)).join(', ')}]`);
  lines.push('', 'resources:');
  add('  ', 'pool', fields.pool);
  add('  ', 'gpu', fields.gpu);
  add('  ', 'gpu-type', fields.type);
  add('  ', 'cpu', fields.cpu);
  add('  ', 'memory', fields.memory);
  return `${lines.join('\n')}\n`;
}
