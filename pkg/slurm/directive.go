package slurm

import (
	"strings"
)

// directive is one option of an #SBATCH line.
type directive struct {
	line int
	// name is the option's long name, without dashes; for an unknown option, the text as written.
	name, value string
	// written is the option as it stands in the script.
	written string
	known   bool
}

const marker = "#SBATCH"

// parseDirectives returns the options of the script in order. Like sbatch, it stops at the first command.
func parseDirectives(lines []string) []directive {
	var out []directive
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		if trimmed != "" && trimmed[0] != '#' {
			break
		}
		if rest, ok := strings.CutPrefix(line, marker); ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
			out = append(out, parseWords(i+1, splitWords(rest))...)
		}
	}
	return out
}

// splitWords splits a line as a shell does: by blanks, with quotes, up to a comment.
func splitWords(text string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	inWord := false
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			end()
		case r == '#' && !inWord:
			return words
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	end()
	return words
}

// parseWords parses options as getopt does: --name=value, --name value, -n value, -nvalue.
func parseWords(line int, words []string) []directive {
	var out []directive
	for i := 0; i < len(words); i++ {
		word := words[i]
		d := directive{line: line, written: word}
		var takes bool
		var inline bool
		if long, ok := strings.CutPrefix(word, "--"); ok {
			d.name, d.value, inline = strings.Cut(long, "=")
			takes, d.known = optionTakesValue(d.name)
		} else if len(word) > 1 && word[0] == '-' {
			d.name, d.known = shortOptions[word[1]]
			takes, _ = optionTakesValue(d.name)
			d.value, inline = strings.TrimPrefix(word[2:], "="), len(word) > 2
			if !d.known {
				d.name = word
			}
		} else {
			d.name = word
		}
		if d.known && takes && !inline && i+1 < len(words) {
			i++
			d.value, d.written = words[i], d.written+" "+words[i]
		}
		out = append(out, d)
	}
	return out
}

// optionTakesValue reports whether sbatch has an option, and whether its value may be the next word.
func optionTakesValue(name string) (takes, known bool) {
	o, known := options[name]
	return known && !o.flag, known
}

// shortOptions are the short options of sbatch.
var shortOptions = map[byte]string{
	'A': "account", 'a': "array", 'B': "extra-node-info", 'b': "begin", 'C': "constraint", 'c': "cpus-per-task",
	'D': "chdir", 'd': "dependency", 'e': "error", 'F': "nodefile", 'G': "gpus", 'H': "hold", 'h': "help", 'i': "input",
	'J': "job-name", 'k': "no-kill", 'L': "licenses", 'M': "clusters", 'm': "distribution", 'N': "nodes", 'n': "ntasks",
	'O': "overcommit", 'o': "output", 'p': "partition", 'Q': "quiet", 'q': "qos", 'S': "core-spec", 's': "oversubscribe",
	't': "time", 'V': "version", 'v': "verbose", 'W': "wait", 'w': "nodelist", 'x': "exclude",
}
