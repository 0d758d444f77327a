package workdir

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// rule is one line of a .gitignore.
type rule struct {
	// dir is the folder of the file that contains the line, "" for the root.
	dir string
	// glob matches paths below dir.
	glob string
	// keep says that matching paths are included despite earlier lines; folder that the line matches only folders.
	keep, folder bool
}

// parseIgnore parses the lines of a .gitignore in a folder, which is "." or "" for the root. Lines that cannot match any path are dropped, as git
// does.
func parseIgnore(dir string, text []byte) []rule {
	dir = strings.TrimPrefix(path.Clean("/"+dir), "/")
	var out []rule
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		if r, ok := parseRule(dir, strings.TrimSuffix(line, "\n")); ok {
			out = append(out, r)
		}
	}
	return out
}

// parseRule parses one line according to gitignore(5).
func parseRule(dir, line string) (rule, bool) {
	line = trimBlanks(strings.TrimSuffix(line, "\r"))
	if line == "" || line[0] == '#' {
		return rule{}, false
	}
	r := rule{dir: dir}
	if line, r.keep = strings.CutPrefix(line, "!"); line == "" {
		return rule{}, false
	}
	line, r.folder = strings.CutSuffix(line, "/")
	line, anchored := strings.CutPrefix(line, "/")
	switch {
	case line == "":
		return rule{}, false
	case !anchored && !strings.Contains(line, "/"):
		line = "**/" + line
	}
	if inside, ok := strings.CutSuffix(line, "/**"); ok {
		line = inside + "/**/*" // the folder's content, but not the folder
	}
	r.glob = strings.NewReplacer(`\\`, `\\`, `\{`, `\{`, "{", `\{`, "}", `\}`).Replace(line)
	return r, doublestar.ValidatePattern(r.glob)
}

// trimBlanks removes trailing blanks except for a quoted one.
func trimBlanks(line string) string {
	trimmed := strings.TrimRight(line, " ")
	if len(trimmed) < len(line) && strings.HasSuffix(trimmed, `\`) {
		return trimmed + " "
	}
	return trimmed
}

// matchesPath reports whether the line applies to a path below the root.
func (r rule) matchesPath(file string, isDir bool) bool {
	if r.folder && !isDir {
		return false
	}
	if r.dir != "" {
		below, ok := strings.CutPrefix(file, r.dir+"/")
		if !ok {
			return false
		}
		file = below
	}
	return doublestar.MatchUnvalidated(r.glob, file)
}

// isIgnored reports whether rules exclude a path: the last matching rule decides. Its parent folders must not be excluded.
func isIgnored(rules []rule, file string, isDir bool) bool {
	for i := len(rules) - 1; i >= 0; i-- {
		if rules[i].matchesPath(file, isDir) {
			return !rules[i].keep
		}
	}
	return false
}
