package configcheck

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// width is the output width in columns, and column where values begin.
const (
	width  = 100
	column = 14
)

// Write prints what a configuration means.
func Write(to io.Writer, m *Meaning) error {
	var out bytes.Buffer
	for _, warning := range m.Warnings {
		out.WriteString(wrapWords("warning: ", strings.Fields(warning), " "))
	}
	for i := range m.Profiles {
		if twin := m.twinOf(i); twin != "" {
			fmt.Fprintf(&out, "\nPROFILE %s\n  as %s\n", m.Profiles[i].SchedulerName, twin)
			continue
		}
		if err := writeProfile(&out, &m.Profiles[i]); err != nil {
			return err
		}
	}
	if len(m.Settings) > 0 {
		out.WriteString("\nSETTINGS\n")
		if err := writeYAML(&out, m.Settings, "  "); err != nil {
			return err
		}
	}
	_, err := to.Write(out.Bytes())
	return err //nolint:wrapcheck // the terminal's own error
}

func writeProfile(out *bytes.Buffer, p *Profile) error {
	if len(p.Points) == 0 {
		out.WriteString("SCORING POLICY\n")
		return writeYAML(out, p.Args["GPUScore"], "  ")
	}
	fmt.Fprintf(out, "\nPROFILE %s\n", p.SchedulerName)
	if p.PercentageOfNodesToScore != nil {
		fmt.Fprintf(out, "  percentageOfNodesToScore: %d\n", *p.PercentageOfNodesToScore)
	}
	out.WriteString("\n  plugins, in the order in which they run (weight)\n")
	for _, point := range p.Points {
		out.WriteString(wrapWords(fmt.Sprintf("  %-*s", column, point.Name), strings.Split(point.String(), ", "), ", "))
	}
	out.WriteString("\n  arguments, with their defaults\n")
	for _, plugin := range slices.Sorted(maps.Keys(p.Args)) {
		fmt.Fprintf(out, "  %s\n", plugin)
		if err := writeYAML(out, p.Args[plugin], "    "); err != nil {
			return err
		}
	}
	return nil
}

// WriteChanges prints what one configuration changes against another.
func WriteChanges(to io.Writer, against string, changes []Change) error {
	var out bytes.Buffer
	if len(changes) == 0 {
		fmt.Fprintf(&out, "\nIt means the same as %s.\n", against)
	} else {
		fmt.Fprintf(&out, "\nCHANGES against %s\n", against)
	}
	for _, change := range changes {
		fmt.Fprintf(&out, "  %s\n", change.Where)
		out.WriteString(wrapWords("    - ", splitWords(change.Before), ", "))
		out.WriteString(wrapWords("    + ", splitWords(change.After), ", "))
	}
	_, err := to.Write(out.Bytes())
	return err //nolint:wrapcheck // the terminal's own error
}

func splitWords(value string) []string {
	if value == "" {
		return []string{"none"}
	}
	return strings.Split(value, ", ")
}

// wrapWords writes words after a heading, and wraps full lines below the first word.
func wrapWords(heading string, words []string, separator string) string {
	var out strings.Builder
	indent, used := strings.Repeat(" ", len(heading)), len(heading)
	out.WriteString(heading)
	for i, word := range words {
		if i < len(words)-1 {
			word += strings.TrimSuffix(separator, " ")
		}
		switch {
		case i == 0:
		case used+1+len(word) > width:
			out.WriteString("\n" + indent)
			used = len(indent)
		default:
			out.WriteString(" ")
			used++
		}
		out.WriteString(word)
		used += len(word)
	}
	return out.String() + "\n"
}

func writeYAML(out *bytes.Buffer, value any, indent string) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		out.WriteString(indent + line)
	}
	return nil
}
