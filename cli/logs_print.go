package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// sourceColors distinguish the pods of a job on a terminal. Red is omitted because it looks like an error.
var sourceColors = []string{"\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m", "\x1b[96m", "\x1b[93m", "\x1b[92m", "\x1b[95m", "\x1b[94m"}

// logPrinter writes lines of output, each with a prefix for its pod if there are several.
type logPrinter struct {
	io                   IOStreams
	timestamps, noPrefix bool
	// several is set as soon as there is more than one pod, and never reset.
	several bool
	// tasks says that the pods are tasks of an array.
	tasks  bool
	colors map[string]string
	// json receives the lines instead, if it is set.
	json *jsonLines
}

// preparePods prepares for the pods of a job, including future ones.
func (p *logPrinter) preparePods(job inventory.Job) {
	p.several = p.several || job.Desired > 1 || len(job.Pods) > 1
	p.tasks = job.Array != nil
}

func (p *logPrinter) printLine(line joblogs.Line) error {
	if p.json != nil {
		return p.json.printLine(line)
	}
	out, text := rawOutput(p.io.Out), line.Text
	if p.io.OutIsTerminal {
		text = finalLine(text)
	}
	if !line.Cut || p.several { // the next piece continues on the same line, unless lines of other pods come between
		text += "\n"
	}
	if p.timestamps && !line.Time.IsZero() {
		text = line.Time.Format(time.RFC3339Nano) + " " + text
	}
	if p.several && !p.noPrefix {
		text = p.linePrefix(line.Source) + text
	}
	_, err := io.WriteString(out, text)
	return err
}

// linePrefix identifies the pod of a line: by its rank or task if it has one, which a user knows.
func (p *logPrinter) linePrefix(source joblogs.Source) string {
	name := source.Pod
	if source.Rank != nil {
		word := "rank"
		if p.tasks {
			word = "task"
		}
		name = fmt.Sprintf("%s %d", word, *source.Rank)
		if source.Again {
			name += " " + source.Pod
		}
	}
	name = "[" + name + "]"
	if !p.io.Color {
		return name + " "
	}
	if p.colors == nil {
		p.colors = map[string]string{}
	}
	color := p.colors[name]
	if color == "" {
		color = sourceColors[len(p.colors)%len(sourceColors)]
		p.colors[name] = color
	}
	return color + name + colorReset + " "
}

// endOutput finishes the output, after the error that cut it short, if any.
func (p *logPrinter) endOutput(cause error) error {
	if p.json == nil {
		return nil
	}
	return p.json.closeList(cause)
}

// jsonLines writes lines as JSON as they arrive: as items of one list, or one object per line.
type jsonLines struct {
	out   io.Writer
	list  bool
	count int
	// kept is added at the end of a list from the ledger.
	kept *keptOutputInfo
}

func (j *jsonLines) printLine(line joblogs.Line) error {
	data, err := json.Marshal(line)
	if err != nil {
		return phrase.Errorf("encoding a line of output: %w", err)
	}
	before, after := "", "\n"
	if j.list {
		before, after = ",\n", ""
		if j.count == 0 {
			before = `{"items": [` + "\n"
		}
	}
	j.count++
	_, err = io.WriteString(j.out, before+string(data)+after)
	return err
}

// closeList closes the list. If no output could be read, there is no list.
func (j *jsonLines) closeList(cause error) error {
	if !j.list || cause != nil && j.count == 0 {
		return nil
	}
	text := "\n]"
	if j.count == 0 {
		text = `{"items": []`
	}
	if j.kept != nil {
		about, err := json.Marshal(j.kept)
		if err != nil {
			return phrase.Errorf("encoding what is known of the output: %w", err)
		}
		text += `, "kept": ` + string(about)
	}
	_, err := io.WriteString(j.out, text+"}\n")
	return err
}
