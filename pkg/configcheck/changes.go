package configcheck

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Change is one difference between two configurations. An empty value is a missing one.
type Change struct {
	// Where is a path, such as "profile gpu-scheduler: filter".
	Where  string `json:"where"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// FindChanges returns the differences between two meanings, sorted by path.
func FindChanges(before, after *Meaning) []Change {
	was, is := before.flattenValues(), after.flattenValues()
	all := maps.Clone(was)
	maps.Copy(all, is)
	changes := []Change{}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if was[path] != is[path] {
			changes = append(changes, Change{path, was[path], is[path]})
		}
	}
	return changes
}

// flattenValues returns a meaning as values by path.
func (m *Meaning) flattenValues() map[string]string {
	into := map[string]string{}
	flattenValue(m.Settings, "", into)
	for i := range m.Profiles {
		p := &m.Profiles[i]
		if twin := m.twinOf(i); twin != "" {
			into["profile "+p.SchedulerName] = "as " + twin
			continue
		}
		at := ""
		if !m.IsPolicy() {
			at = "profile " + p.SchedulerName + ": "
		}
		if p.PercentageOfNodesToScore != nil {
			into[at+"percentageOfNodesToScore"] = fmt.Sprint(*p.PercentageOfNodesToScore)
		}
		for _, point := range p.Points {
			into[at+point.Name] = point.String()
		}
		for plugin, args := range p.Args {
			flattenValue(args, at+plugin, into)
		}
	}
	return into
}

// String lists the plugins in their order, with their weights.
func (p Point) String() string {
	names := make([]string, len(p.Plugins))
	for i, plugin := range p.Plugins {
		if names[i] = plugin.Name; plugin.Weight != 0 {
			names[i] = fmt.Sprintf("%s (%d)", plugin.Name, plugin.Weight)
		}
	}
	return strings.Join(names, ", ")
}

func flattenValue(value any, path string, into map[string]string) {
	if fields, ok := value.(map[string]any); ok {
		for name, field := range fields {
			flattenValue(field, joinPath(path, name), into)
		}
		return
	}
	if entries, ok := value.([]any); ok {
		texts := make([]string, len(entries))
		for i, entry := range entries {
			texts[i] = jsonText(entry)
		}
		into[path] = "[" + strings.Join(texts, ", ") + "]"
		return
	}
	into[path] = jsonText(value)
}

func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil { // values decoded from JSON can be encoded
		return fmt.Sprint(value)
	}
	return string(text)
}
