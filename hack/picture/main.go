// Command picture draws which job holds which GPU of a cluster, as an SVG for a page or a report. It reads what `gpuctl top
// gpus -o json` prints, which names the holders of each GPU; `gpuctl get nodes -o json` only counts the GPUs of a node.
//
//	gpuctl top gpus -o json | go run ./hack/picture -title "The demo" > docs/pictures/demo.svg
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	title := flag.String("title", "Which job holds which GPU", "The first line of the picture")
	flag.Parse()
	if err := draw(os.Stdin, os.Stdout, *title); err != nil {
		fmt.Fprintln(os.Stderr, "drawing the GPUs:", err)
		os.Exit(1)
	}
}

func draw(in io.Reader, out io.Writer, title string) error {
	gpus, err := read(in)
	if err != nil {
		return fmt.Errorf("%w: want the output of gpuctl top gpus -o json", err)
	}
	_, err = io.WriteString(out, newPicture(gpus).svg(title))
	return err
}

// gpu is a GPU, or a MIG slice, with the keys of usage.GPU that the picture needs; encoding/json ignores their case.
type gpu struct {
	Node, Pool, State, Health string
	Index                     int
	Holders                   []holder
}
type holder struct{ Namespace, Job, Pod string }

// jobs returns the names of the holders, each once: a job, or a pod that belongs to none.
func (g gpu) jobs() []string {
	names := make([]string, len(g.Holders))
	for i, h := range g.Holders {
		names[i] = h.Namespace + "/" + cmp.Or(h.Job, h.Pod)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func read(in io.Reader) ([]gpu, error) {
	var list struct{ Items []gpu }
	if err := json.NewDecoder(in).Decode(&list); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("the list has no items")
	}
	for i, g := range list.Items {
		if g.Node == "" || g.Pool == "" || !slices.Contains([]string{"free", "whole", "shared", "unhealthy", "held"}, g.State) {
			return nil, fmt.Errorf("items[%d] is not a GPU: node %q, pool %q, state %q", i, g.Node, g.Pool, g.State)
		}
	}
	return list.Items, nil
}

// picture has the GPUs of each pool, and by name of the jobs how many GPUs each holds and its color.
type picture struct {
	pools         [][]gpu
	held          map[string]int
	color         map[string]string
	longest, most int // letters in the name of a node, GPUs of a node
}

func newPicture(gpus []gpu) picture {
	p, onNode := picture{held: map[string]int{}, color: map[string]string{}}, map[string]int{}
	slices.SortStableFunc(gpus, func(a, b gpu) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index))
	})
	for i, g := range gpus {
		if i == 0 || g.Pool != gpus[i-1].Pool {
			p.pools = append(p.pools, nil)
		}
		p.pools[len(p.pools)-1] = append(p.pools[len(p.pools)-1], g)
		onNode[g.Node]++
		p.longest, p.most = max(p.longest, len(g.Node)), max(p.most, onNode[g.Node])
		for _, job := range g.jobs() {
			p.held[job]++
		}
	}
	for _, job := range slices.Sorted(maps.Keys(p.held)) {
		p.color[job] = p.colorFor(job)
	}
	return p
}

// colors are visible on white and on black.
var colors = []string{"#4477aa", "#ee7733", "#228833", "#cc3388", "#33aacc", "#aa8822", "#8866cc", "#009988", "#bb5566", "#7a8a3a"}

// colorFor returns the color that follows from the job's name, or the next one that no other job has while there is one.
func (p picture) colorFor(job string) string {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, job) // a hash accepts everything
	first := int(hash.Sum32() % uint32(len(colors)))
	for _, color := range slices.Concat(colors[first:], colors[:first]) {
		if !slices.Contains(slices.Collect(maps.Values(p.color)), color) {
			return color
		}
	}
	return colors[first]
}

// Lengths in pixels: from one letter, GPU and node to the next, the head of a pool, and the margin. A row has perRow pools.
const letter, gpuStep, nodeStep, poolHead, margin, perRow = 6, 16, 17, 34, 20, 4

const style = `<style>
text{font:10px ui-monospace,Menlo,Consolas,monospace;fill:#1f2328}.title{font-size:16px;font-weight:bold}.pool{font-size:12px;font-weight:bold}
.dim{fill:#59636e}.back{fill:#ffffff}.free,.unhealthy{fill:none;stroke:#b1bac4}.held,.whole,.shared{fill:#8b949e}.cross{stroke:#d1242f;stroke-width:2}
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.dim{fill:#9198a1}.back{fill:#0d1117}.free,.unhealthy{stroke:#484f58}.cross{stroke:#ff6b6b}}</style>`

func (p picture) svg(title string) string {
	var body strings.Builder
	column, y := max(180, (p.longest+1)*letter+p.most*gpuStep+margin), 64
	width := max(2*margin+min(len(p.pools), perRow)*column, len(title)*10+2*margin, 360)
	for row := range slices.Chunk(p.pools, perRow) {
		tallest := 0
		for i, gpus := range row {
			tallest = max(tallest, p.drawPool(&body, gpus, margin+i*column, y))
		}
		y += poolHead + tallest*nodeStep + margin
	}
	height := p.drawLegend(&body, y, width) + margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>%[3]s</title>%[4]s<rect class="back" width="%[1]d" height="%[2]d"/>
<text class="title" x="20" y="36">%[3]s</text>
%[5]s</svg>`+"\n", width, height, html.EscapeString(title), style, body.String())
}

// drawPool returns how many nodes it has drawn, one below the other.
func (p picture) drawPool(out *strings.Builder, gpus []gpu, x, y int) int {
	nodes, at, held := 0, x, 0
	for i, g := range gpus {
		if i == 0 || g.Node != gpus[i-1].Node {
			nodes, at = nodes+1, x+(p.longest+1)*letter
			write(out, "", x, y+poolHead+nodes*nodeStep-7, g.Node)
		}
		p.drawGPU(out, g, at, y+poolHead+(nodes-1)*nodeStep)
		at += gpuStep
		if len(g.Holders) > 0 || g.State == "held" {
			held++
		}
	}
	write(out, "pool", x, y+10, gpus[0].Pool)
	write(out, "dim", x, y+24, fmt.Sprintf("%d of %d GPUs held", held, len(gpus)))
	return nodes
}

// drawGPU draws a stripe for each job that holds the GPU, and a cross if it is broken.
func (p picture) drawGPU(out *strings.Builder, g gpu, x, y int) {
	jobs := g.jobs()
	if len(jobs) == 0 {
		fmt.Fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"13\" height=\"13\"/>\n", g.State, x, y)
	}
	for i, job := range jobs {
		fmt.Fprintf(out, "<rect fill=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"13\"><title>%s</title></rect>\n",
			p.color[job], x+13*i/len(jobs), y, 13*(i+1)/len(jobs)-13*i/len(jobs), html.EscapeString(job))
	}
	if g.State == "unhealthy" {
		fmt.Fprintf(out, "<path class=\"cross\" d=\"M%d %dl9 9m0 -9l-9 9\"><title>%s</title></path>\n", x+2, y+2, html.EscapeString(g.Health))
	}
}

// drawLegend returns where it ends.
func (p picture) drawLegend(out *strings.Builder, y, width int) int {
	words, swatches := []string{"free", "broken", "held, which GPU is unknown"}, []gpu{{State: "free"}, {State: "unhealthy"}, {State: "held"}}
	step := len(words[2])
	for _, job := range slices.Sorted(maps.Keys(p.held)) {
		namespace, name, _ := strings.Cut(job, "/")
		words, swatches = append(words, fmt.Sprintf("%s: %d", job, p.held[job])), append(swatches, gpu{Holders: []holder{{namespace, name, ""}}})
		step = max(step, len(words[len(words)-1]))
	}
	columns := max(1, (width-margin)/(step*letter+2*margin))
	for i, swatch := range swatches {
		x, top := margin+i%columns*(step*letter+2*margin), y+i/columns*nodeStep
		p.drawGPU(out, swatch, x, top)
		write(out, "", x+margin, top+10, words[i])
	}
	return y + ((len(words)-1)/columns+1)*nodeStep
}

func write(out *strings.Builder, class string, x, y int, text string) {
	fmt.Fprintf(out, "<text class=\"%s\" x=\"%d\" y=\"%d\">%s</text>\n", class, x, y, html.EscapeString(text))
}
