package workload

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/test/golden"
)

const docsFile = "../../docs/yaml.md"

// generatedPart is what TestDocs writes into docs/yaml.md; all the rest of the page is written by hand.
var generatedPart = regexp.MustCompile(`(?s)(<!-- fields: generated[^>]*-->\n).*(<!-- end of fields -->)`)

// TestDocs keeps the tables of docs/yaml.md as the tables of fields say. Run it with -update after a change.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !generatedPart.Match(page) {
		t.Fatalf("%s has no part for the tables", docsFile)
	}
	want := generatedPart.ReplaceAllString(string(page), "${1}"+strings.ReplaceAll(fieldTables(), "$", "$$")+"${2}")
	golden.Compare(t, docsFile, want)
}

// TestDocsHaveAnExampleOfEveryField checks what the tables are made of.
func TestDocsHaveAnExampleOfEveryField(t *testing.T) {
	for _, kind := range Kinds {
		for _, f := range Fields(kind) {
			switch {
			case f.Doc == "" || f.Type == "":
				t.Errorf("%s %s is not described", kind, f.Path)
			case !f.Section && f.Example == "":
				t.Errorf("%s %s has no example", kind, f.Path)
			case !f.Section && !f.Required && f.Default == "":
				t.Errorf("%s %s has no default", kind, f.Path)
			}
		}
	}
}

// described is a field in all the kinds that have it.
type described struct {
	Field
	kinds    []Kind
	defaults []string
}

// fieldTables renders a table for each section: first those of jobs, then those of pools, of quotas and of reservations.
func fieldTables() string {
	var b strings.Builder
	jobs := mergeFields(Kinds[:4])
	b.WriteString("\n## Jobs: training, inference, notebook, compute\n")
	writeTables(&b, jobs, 4)
	b.WriteString("\n## Pools\n")
	writeTables(&b, mergeFields([]Kind{KindPool}), 1)
	b.WriteString("\n## Quotas\n")
	writeTables(&b, mergeFields([]Kind{KindQuota}), 1)
	b.WriteString("\n## Reservations\n")
	writeTables(&b, mergeFields([]Kind{KindReservation}), 1)
	b.WriteString("\n")
	return b.String()
}

// mergeFields returns the fields of several kinds, each path once, in the order of the tables.
func mergeFields(kinds []Kind) []described {
	var out []described
	for _, kind := range kinds {
		at := 0
		for _, f := range Fields(kind) {
			i := slices.IndexFunc(out, func(d described) bool { return d.Path == f.Path })
			if i < 0 {
				i = at
				out = slices.Insert(out, i, described{Field: f})
			}
			out[i].kinds = append(out[i].kinds, kind)
			out[i].defaults = append(out[i].defaults, f.Default)
			at = i + 1
		}
	}
	return out
}

// writeTables writes the fields of each section under a heading of its own.
func writeTables(b *strings.Builder, all []described, kinds int) {
	writeTable(b, "", all, kinds)
	for _, f := range all {
		if f.Section {
			fmt.Fprintf(b, "\n### %s\n\n%s%s\n", f.Path, f.Doc, onlyFor(f.kinds, kinds))
			writeTable(b, sectionPrefix(f.Field), all, len(f.kinds))
		}
	}
}

func sectionPrefix(f Field) string {
	if strings.Contains(f.Type, "list") {
		return f.Path + "[]."
	}
	return f.Path + "."
}

func writeTable(b *strings.Builder, prefix string, all []described, kinds int) {
	b.WriteString("\n| field | type | default | example | meaning |\n|---|---|---|---|---|\n")
	for _, f := range all {
		name, ok := strings.CutPrefix(f.Path, prefix)
		if !ok || strings.Contains(name, ".") {
			continue
		}
		example := "see below"
		if !f.Section {
			example = "`" + f.Example + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s%s |\n", name, f.Type, f.defaultText(), example, f.Doc, onlyFor(f.kinds, kinds))
	}
}

// onlyFor names the kinds of a field that not all of them have.
func onlyFor(kinds []Kind, all int) string {
	if len(kinds) == all {
		return ""
	}
	return fmt.Sprintf(" Only for %s.", strings.ReplaceAll(englishAlternatives(kinds), " or ", " and "))
}

// defaultText renders the default, by kind where it differs.
func (d described) defaultText() string {
	if d.Required {
		return "**required**"
	}
	if d.Section && d.Default == "" {
		return "none"
	}
	if len(slices.Compact(slices.Clone(d.defaults))) == 1 {
		return d.defaults[0]
	}
	var parts []string
	for i, kind := range d.kinds {
		parts = append(parts, fmt.Sprintf("%s: %s", kind, d.defaults[i]))
	}
	return strings.Join(parts, "; ")
}
