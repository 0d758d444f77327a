package cli

import (
	"fmt"
	"io"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
)

// sourceColors tell the pods of a job apart on a terminal. Red is left out: it looks like an error.
var sourceColors = []string{"\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m", "\x1b[96m", "\x1b[93m", "\x1b[92m", "\x1b[95m", "\x1b[94m"}

// logPrinter writes lines of output, each after the pod it is from when there are several.
type logPrinter struct {
	io                   IOStreams
	timestamps, noPrefix bool
	// several is set as soon as there is more than one pod, and stays so.
	several bool
	colors  map[string]string
}

// expect prepares for the pods of a job, those to come included.
func (p *logPrinter) expect(job inventory.Job) {
	p.several = p.several || job.Desired > 1 || len(job.Pods) > 1
}

func (p *logPrinter) print(line joblogs.Line) error {
	text := line.Text + "\n"
	if p.timestamps && !line.Time.IsZero() {
		text = line.Time.Format(time.RFC3339Nano) + " " + text
	}
	if p.several && !p.noPrefix {
		text = p.prefix(line.Source) + text
	}
	_, err := io.WriteString(p.io.Out, text)
	return err
}

// prefix names the pod of a line: by its rank, which a user knows, if it has one.
func (p *logPrinter) prefix(source joblogs.Source) string {
	name := source.Pod
	if source.Rank != nil {
		name = fmt.Sprintf("rank %d", *source.Rank)
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
