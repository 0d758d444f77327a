package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThePathsOfTheArchitectureAreThere: what docs/architecture.md sends a reader to exists. A file named after a folder in
// the same cell of a table is one of that folder.
func TestThePathsOfTheArchitectureAreThere(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	tops := regexp.MustCompile(`^(cmd|cli|pkg|plugins|manifests|test|hack|docs|examples)(/|$)`)
	file := regexp.MustCompile(`^[a-z_]+\.(go|yaml|md|sh)$`)
	quoted := regexp.MustCompile("`([^` ]+)`")
	found := 0
	for line := range strings.Lines(string(page)) {
		for cell := range strings.SplitSeq(line, "|") {
			folder := ""
			for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
				path := match[1]
				switch {
				case tops.MatchString(path):
					folder = folderOf(path)
				case folder != "" && file.MatchString(path):
					path = filepath.Join(folder, path)
				default:
					continue
				}
				for _, each := range braces(path) {
					found++
					if matches, err := filepath.Glob(filepath.Join("../..", each)); err != nil || len(matches) == 0 {
						t.Errorf("%s is not there; the line is %s", each, strings.TrimSpace(line))
					}
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d paths were found on the page", found)
	}
}

// folderOf is the folder that a path names, or that of the file that it names.
func folderOf(path string) string {
	if filepath.Ext(path) != "" {
		return filepath.Dir(path)
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
