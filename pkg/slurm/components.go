package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/amounts"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// A heterogeneous job has several components, each with options and nodes of its own, and srun starts programs on some of them. It becomes one job whose
// members start together as the components do. All its nodes are alike, so each has what the largest component asks of a node; a component without
// GPUs gets no nodes of its own and shares the first ones. What all components together have once, such as a name, is that of the first one.

// componentOptions are the options of one component, and where it begins: mark is the word before it, "" for the first one.
type componentOptions struct {
	line    int
	mark    string
	options []directive
}

// splitComponents splits the options of a script by the words between them. Slurm called a hetjob a packjob before 20.02.
func splitComponents(given []directive) []componentOptions {
	out := []componentOptions{{}}
	for _, d := range given {
		if !d.known && (d.written == "hetjob" || d.written == "packjob") {
			out = append(out, componentOptions{line: d.line, mark: d.written})
			continue
		}
		last := &out[len(out)-1]
		last.options = append(last.options, d)
	}
	return out
}

// readComponents reads the request of each component of a script; most scripts have one. Options of the first one that are about the whole job hold for
// the others, too.
func readComponents(lines []string, options Options) []*request {
	var out []*request
	for i, part := range splitComponents(parseDirectives(lines)) {
		r := &request{options: options, lines: lines, nodes: 1, retries: -1, begins: part}
		if i > 0 {
			first := out[0]
			r.name, r.comment, r.partition, r.directory, r.image = first.name, first.comment, first.partition, first.directory, first.image
			r.limit, r.retries, r.priority = first.limit, first.retries, first.priority
			r.env, r.mounts = slices.Clone(first.env), slices.Clone(first.mounts)
		}
		for _, d := range part.options {
			r.applyDirective(d)
		}
		out = append(out, r)
	}
	return out
}

// joinComponents makes the first component the request of the whole job. The others must be able to run on the same kind of node.
func (r *request) joinComponents(all []*request) error {
	if len(all) == 1 {
		return nil
	}
	own := *r
	r.components = append([]*request{&own}, all[1:]...)
	for _, c := range r.components {
		if err := r.takeKind(c); err != nil {
			return err
		}
		r.gpus, r.limit = max(r.gpus, c.gpus), longerLimit(r.limit, c.limit)
	}
	if err := r.placeComponents(); err != nil {
		return err
	}
	r.sizeNodes()
	r.noteComponents()
	return nil
}

// sharesNodes reports whether a component gets no nodes of its own.
func (r *request) sharesNodes(c *request) bool { return c.gpus == 0 && r.gpus > 0 }

// placeComponents says which nodes of the job each component gets. Nodes beyond those of the components with GPUs would have GPUs that nothing uses.
func (r *request) placeComponents() error {
	r.nodes = 0
	for _, c := range r.components {
		if !r.sharesNodes(c) {
			c.firstNode = r.nodes
			r.nodes += c.nodes
		}
	}
	for i, c := range r.components {
		if r.sharesNodes(c) && c.nodes > r.nodes {
			return phrase.Errorf("component %d asks for no GPUs and for %d nodes, and the components with GPUs have %d, while all nodes of a job here are of one kind: "+
				"make a script of each component, with its own #SBATCH lines and its own command, and import them one by one", i, c.nodes, r.nodes)
		}
	}
	return nil
}

// sizeNodes makes each node as large as the largest component needs it, and those that share it beside that. An amount that one component leaves open
// stays open: that of another one would be a limit that the component never had.
func (r *request) sizeNodes() {
	var largest, beside struct {
		cpus   int
		memory int64
	}
	for _, c := range r.components {
		if r.sharesNodes(c) {
			beside.cpus, beside.memory = beside.cpus+c.cpus, amounts.Add(beside.memory, c.memory)
		} else {
			largest.cpus, largest.memory = max(largest.cpus, c.cpus), max(largest.memory, c.memory)
		}
	}
	r.cpus, r.memory = largest.cpus+beside.cpus, amounts.Add(largest.memory, beside.memory)
	open := func(amount func(*request) bool) int { return slices.IndexFunc(r.components, amount) }
	if i := open(func(c *request) bool { return c.cpus == 0 }); i >= 0 && r.cpus > 0 {
		r.cpus = 0
		r.addNote(r.components[i].begins.line, openAmountNote, "resources.cpu", i)
	}
	if i := open(func(c *request) bool { return c.memory == 0 }); i >= 0 && r.memory > 0 {
		r.memory = 0
		r.addNote(r.components[i].begins.line, openAmountNote, "resources.memory", i)
	}
}

const openAmountNote = "%s is left out: component %d does not give it, and all nodes of a job are alike"

// takeKind takes from a component what all nodes of the job have, and refuses what differs.
func (r *request) takeKind(c *request) error {
	differs := func(what, theirs, ours string) error {
		return phrase.Errorf("line %d: %s begins a component with %s %s, and the one before has %s, while all nodes of a job here are of one kind: "+
			"make a script of each component, with its own #SBATCH lines and its own command, and import them one by one", c.begins.line, c.begins.mark, what, theirs, ours)
	}
	switch {
	case c.gpus > 0 && r.gpuType != "" && c.gpuType != "" && c.gpuType != r.gpuType:
		return differs("--gpus", c.gpuType, r.gpuType)
	case c.poolName() != r.poolName():
		return differs("--partition", c.poolName(), r.poolName())
	case c.image != "" && c.image != r.image:
		return differs("--container-image", c.image, r.image)
	}
	if theirs, ours := differentVariable(c.env, r.env); theirs != "" {
		return differs("--export", theirs, ours)
	}
	r.gpuType = cmp.Or(r.gpuType, c.gpuType)
	for _, list := range []struct{ ours, theirs *[]string }{{&r.env, &c.env}, {&r.mounts, &c.mounts}} {
		for _, entry := range *list.theirs {
			if !slices.Contains(*list.ours, entry) {
				*list.ours = append(*list.ours, entry)
			}
		}
	}
	if c.begins.mark != "" {
		r.notes = append(r.notes, c.notes...)
		r.noteFirstAlone(c)
	}
	return nil
}

// differentVariable returns the first NAME=VALUE of a component that has another value in the other list. The last entry of a name counts.
func differentVariable(theirs, ours []string) (their, our string) {
	values := map[string]string{}
	for _, entry := range ours {
		name, _, _ := strings.Cut(entry, "=")
		values[name] = entry
	}
	for i, entry := range theirs {
		name, _, _ := strings.Cut(entry, "=")
		again := slices.ContainsFunc(theirs[i+1:], func(later string) bool { return strings.HasPrefix(later, name+"=") })
		if our, given := values[name]; given && our != entry && !again {
			return entry, our
		}
	}
	return "", ""
}

// noteFirstAlone notes the options of a component of which a job has one, so that those of the first component hold.
func (r *request) noteFirstAlone(c *request) {
	for _, option := range []struct {
		name    string
		differs bool
	}{
		{"--job-name", c.name != r.name},
		{"--comment", c.comment != r.comment},
		{"--chdir", c.directory != r.directory},
		{"--qos", c.priority != r.priority},
		{"--no-requeue", c.retries != r.retries},
		{"--array", len(c.arrayTasks.ids) > 0 && !(slices.Equal(c.arrayTasks.ids, r.arrayTasks.ids) && c.arrayTasks.atOnce == r.arrayTasks.atOnce)},
	} {
		if option.differs {
			r.addNote(c.begins.line, "%s of this component is left out: a job has one, and that of the first component holds", option.name)
		}
	}
}

// noteComponents says which nodes each component has, and what it gets beyond its request.
func (r *request) noteComponents() {
	for i, c := range r.components {
		nodes := fmt.Sprint(c.firstNode)
		if c.nodes > 1 {
			nodes = fmt.Sprintf("%d-%d", c.firstNode, c.firstNode+c.nodes-1)
		}
		switch {
		case r.sharesNodes(c):
			r.addNote(c.begins.line, "component %d asks for no GPUs: it shares NODE_RANK %s of the job, and its CPUs and memory are added to each node", i, nodes)
		case c.gpus < r.gpus:
			r.addNote(c.begins.line, "component %d is NODE_RANK %s of the job, and gets %d GPUs a node where it asks for %d: all nodes of a job are alike", i, nodes, r.gpus, c.gpus)
		default:
			r.addNote(c.begins.line, "component %d is NODE_RANK %s of the job", i, nodes)
		}
	}
}
