package architecture

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	linkTarget  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	labeledLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	codeBlock   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	pageHeading = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	otherHost   = regexp.MustCompile(`^[a-z]+:`)
	// pageMention matches a section of a page that code, scripts and manifests send a reader to.
	pageMention = regexp.MustCompile(`docs/[a-z/-]+\.md#[a-z0-9-]+`)
)

// TestEveryLinkOfThePagesLeadsSomewhere checks the file of each relative link, and its anchor.
func TestEveryLinkOfThePagesLeadsSomewhere(t *testing.T) {
	checked := 0
	for _, page := range markdownPages(t) {
		text := codeBlock.ReplaceAllString(read(t, page), "")
		for _, link := range linkTarget.FindAllStringSubmatch(text, -1) {
			if otherHost.MatchString(link[1]) {
				continue
			}
			checked++
			if problem := followLink(t, page, link[1]); problem != "" {
				t.Errorf("%s: %s", page, problem)
			}
		}
	}
	if checked < 500 {
		t.Errorf("checked %d links, so the test proves little", checked)
	}
}

// TestEverySectionThatTheCodeNamesIsThere checks the anchors in comments, messages, scripts and manifests.
func TestEverySectionThatTheCodeNamesIsThere(t *testing.T) {
	for _, file := range textFiles(t) {
		for _, link := range pageMention.FindAllString(read(t, file), -1) {
			if problem := followLink(t, "README.md", link); problem != "" {
				t.Errorf("%s: %s", file, problem)
			}
		}
	}
}

// followLink says what is wrong with a relative link of a page, "" for nothing.
func followLink(t *testing.T, page, link string) string {
	t.Helper()
	path, anchor, _ := strings.Cut(link, "#")
	target := page
	if path != "" {
		target = filepath.ToSlash(filepath.Join(filepath.Dir(page), path))
	}
	if _, err := os.Stat(filepath.Join(root, target)); err != nil {
		return fmt.Sprintf("the link %s leads to no file", link)
	}
	if anchor != "" && strings.HasSuffix(target, ".md") && !slices.Contains(anchorsOf(read(t, target)), anchor) {
		return fmt.Sprintf("%s has no section for the link %s", target, link)
	}
	return ""
}

// anchorsOf returns the anchors of a page's headings, as GitHub makes them.
func anchorsOf(text string) (anchors []string) {
	seen := map[string]int{}
	for _, match := range pageHeading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		words := strings.ToLower(strings.TrimSpace(labeledLink.ReplaceAllString(match[1], "$1")))
		anchor := strings.ReplaceAll(notInAnchor.ReplaceAllString(words, ""), " ", "-")
		if count := seen[anchor]; count > 0 {
			anchors = append(anchors, fmt.Sprintf("%s-%d", anchor, count))
		} else {
			anchors = append(anchors, anchor)
		}
		seen[anchor]++
	}
	return anchors
}

// markdownPages are the pages at the top of the module and those of docs.
func markdownPages(t *testing.T) []string {
	t.Helper()
	pages := matching("*.md")
	return append(pages, filesBelow(t, "docs", ".md")...)
}

// textFiles are the sources of the product, its scripts and what is installed.
func textFiles(t *testing.T) (files []string) {
	t.Helper()
	files = matching("Makefile")
	for _, tree := range []string{"cmd", "cli", "pkg", "plugins", "manifests", "hack", "examples", "test"} {
		files = append(files, filesBelow(t, tree, ".go", ".yaml", ".yml", ".sh", ".service", ".tpl", ".txt", ".json")...)
	}
	return files
}

// filesBelow are the files of a tree with one of these extensions.
func filesBelow(t *testing.T, tree string, extensions ...string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, tree), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains(extensions, filepath.Ext(path)) {
			files = append(files, filepath.ToSlash(strings.TrimPrefix(path, filepath.Clean(root)+string(filepath.Separator))))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
