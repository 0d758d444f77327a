package configcheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestThePageHasThePointsOfOurPlugins compares the table of docs/architecture.md with the shipped configuration: at which points which of
// our plugins are asked, and in which order.
func TestThePageHasThePointsOfOurPlugins(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([a-z]+)`")
	written := map[string][]string{}
	_, table, _ := strings.Cut(string(page), "\n| point | ours, in order | beside kube-scheduler's |\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		for point := range strings.SplitSeq(strings.TrimSpace(cells[1]), ", ") {
			for _, match := range quoted.FindAllStringSubmatch(cells[2], -1) {
				written[strings.ToLower(point)] = append(written[strings.ToLower(point)], match[1])
			}
		}
	}
	asked := map[string][]string{}
	for _, point := range read(t, shipped).Profiles[0].Points {
		for _, plugin := range point.Plugins {
			name := strings.ToLower(plugin.Name)
			if _, err := os.Stat(filepath.Join("../../plugins", name)); err == nil {
				asked[strings.ToLower(point.Name)] = append(asked[strings.ToLower(point.Name)], name)
			}
		}
	}
	if diff := cmp.Diff(asked, written); diff != "" {
		t.Errorf("the points of our plugins (-shipped +docs/architecture.md):\n%s", diff)
	}
}
