package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the module.
const root = "../.."

var (
	quoted = regexp.MustCompile("`([^` ]+)`")
	// tops match a path from the root, inFolder a file of a folder that was named before it, below a folder in one, and name a name
	// that is declared in a file.
	tops     = regexp.MustCompile(`^(cmd|cli|pkg|plugins|manifests|test|hack|docs|examples)(/|$)`)
	inFolder = regexp.MustCompile(`^[A-Za-z_][A-Za-z_.]*\.(go|yaml|json|tpl|txt|md|sh)$`)
	below    = regexp.MustCompile(`^[a-z0-9]+/$`)
	name     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]+$`)
)

// mention is what a page sends a reader to: a pattern of paths, and what is to be found in that file, "" for the file itself.
type mention struct{ path, name string }

// mentions are those of a line. What is named after a folder or a file is in it; in the row of a table, also after the first cell.
func mentions(line string) (found []mention) {
	row, base, folder, file := strings.HasPrefix(line, "|"), "", "", ""
	for _, match := range quoted.FindAllStringSubmatch(line, -1) {
		word := match[1]
		switch {
		case tops.MatchString(word):
			folder, file = folderOf(word), fileOf(word)
			if base == "" {
				base = folder
			}
		case folder != "" && inFolder.MatchString(word):
			word = folder + "/" + word
			file = fileOf(word)
		case row && base != "" && below.MatchString(word):
			folder, file = base+"/"+within(base, strings.TrimSuffix(word, "/")), ""
			word = folder
		case row && file != "" && name.MatchString(word):
			found = append(found, mention{file, word})
			continue
		default:
			continue
		}
		for _, path := range braces(word) {
			found = append(found, mention{path: path})
		}
	}
	return found
}

// within is where a folder lies in another one: there, or in one of its folders.
func within(base, folder string) string {
	if deep := matching(base + "/*/" + folder); len(deep) > 0 && len(matching(base+"/"+folder)) == 0 {
		return strings.TrimPrefix(deep[0], base+"/")
	}
	return folder
}

// matching are the paths of a pattern.
func matching(pattern string) []string {
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		return nil // it is no pattern, and so no path
	}
	for i := range found {
		found[i] = filepath.ToSlash(strings.TrimPrefix(found[i], filepath.Clean(root)+string(filepath.Separator)))
	}
	return found
}

// folderOf is the folder that a path names, or that of the file that it names.
func folderOf(path string) string {
	if filepath.Ext(path) != "" {
		return filepath.Dir(path)
	}
	return strings.TrimSuffix(path, "/")
}

// fileOf is the Go file that a path names, "" for none.
func fileOf(path string) string {
	if filepath.Ext(path) != ".go" {
		return ""
	}
	return path
}

// braces unfolds a{b,c} into ab and ac.
func braces(path string) []string {
	open, end := strings.Index(path, "{"), strings.Index(path, "}")
	if open < 0 || end < open {
		return []string{path}
	}
	var out []string
	for choice := range strings.SplitSeq(path[open+1:end], ",") {
		out = append(out, path[:open]+choice+path[end+1:])
	}
	return out
}

// read returns a file of the module.
func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestWhatThePagesNameIsThere: what they send a reader to exists, the name in a file included.
func TestWhatThePagesNameIsThere(t *testing.T) {
	for page, least := range map[string]int{"README.md": 10, "docs/architecture.md": 200} {
		found := 0
		for line := range strings.Lines(read(t, page)) {
			for _, m := range mentions(line) {
				found++
				switch paths := matching(m.path); {
				case len(paths) == 0:
					t.Errorf("%s: %s is not there; the line is %s", page, m.path, strings.TrimSpace(line))
				case m.name != "" && !strings.Contains(read(t, paths[0]), m.name):
					t.Errorf("%s: %s has no %s; the line is %s", page, m.path, m.name, strings.TrimSpace(line))
				}
			}
		}
		if found < least {
			t.Errorf("%s: found %d paths and names, so the test proves little", page, found)
		}
	}
}

// section is a part of docs/architecture.md, by its heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, after, found := strings.Cut(read(t, "docs/architecture.md"), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/architecture.md has no section %q", heading)
	}
	part, _, _ := strings.Cut(after, "\n## ")
	return part
}

// TestEveryPackageHasItsPlaceOnThePage: a folder with code has a row, or is named in the row of a folder above it. What a row may not reach
// does not count.
func TestEveryPackageHasItsPlaceOnThePage(t *testing.T) {
	named := map[string]bool{}
	for line := range strings.Lines(section(t, "Where everything is")) {
		cells := strings.SplitAfterN(line, "|", 4)
		if len(cells) < 4 {
			continue
		}
		first := mentions(cells[0] + cells[1])
		for _, m := range mentions(strings.Join(cells[:3], "")) {
			for _, path := range matching(m.path) {
				named[path] = true
			}
		}
		if len(first) == 1 {
			for _, match := range quoted.FindAllStringSubmatch(cells[2], -1) { // programs
				named[strings.TrimSuffix(first[0].path, "/")+"/"+match[1]] = true
			}
		}
	}
	folders := packages(t)
	for _, folder := range folders {
		if !named[folder] {
			t.Errorf("docs/architecture.md does not say what %s is for: give it a row, or name it in the row of a folder above", folder)
		}
	}
	if len(folders) < 100 {
		t.Errorf("found %d packages, so the test proves little", len(folders))
	}
}

// packages are the folders of the product that have code.
func packages(t *testing.T) (folders []string) {
	t.Helper()
	for _, tree := range []string{"cmd", "cli", "pkg", "plugins"} {
		err := filepath.WalkDir(filepath.Join(root, tree), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				folders = append(folders, filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), filepath.Clean(root)+string(filepath.Separator))))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}
