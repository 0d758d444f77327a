package server

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/usage"
)

// GPUMap is every GPU of the cluster in columns: entry i of each column is of node i. Values that repeat stand once in a list, and columns have their places
// in it. So a thousand nodes take less than 100 KB.
type GPUMap struct {
	Taken time.Time `json:"taken" doc:"When the cluster was like this"`
	Nodes []string  `json:"nodes" doc:"The names of the nodes with GPUs, sorted"`

	Pools    []string `json:"pools" doc:"The pools; pool has places in this list"`
	Pool     []int    `json:"pool"`
	Types    []string `json:"types" doc:"The types of GPUs; type has places in this list"`
	Type     []int    `json:"type"`
	Racks    []string `json:"racks" doc:"The racks, an empty one for none; rack has places in this list"`
	Rack     []int    `json:"rack"`
	Statuses []string `json:"statuses" doc:"What nodes are, in the words of the list of nodes; status has places in this list"`
	Status   []int    `json:"status"`

	Free []int64 `json:"free" doc:"GPUs that new pods could get: 0 on nodes that take none"`

	GPUs    []string      `json:"gpus" doc:"One letter a GPU, in the order of their numbers: f free, u in use as a whole, s shared, h in use by a pod whose GPUs only the node knows, m in MIG mode, x unhealthy" example:"uuuuffsx"`
	Numbers []NodeNumbers `json:"numbers,omitempty" doc:"The driver's numbers of GPUs, for nodes where they are not 0, 1, 2 and so on"`
	Counts  []NodeCounts  `json:"counts,omitempty" doc:"How many GPUs there are, for nodes where it is not one for each letter, with those in use under u, s and h, and room for whole ones as far as they are free"`
	Faults  []Fault       `json:"faults,omitempty" doc:"What is wrong with unhealthy GPUs"`

	Namespaces      []string `json:"namespaces" doc:"The namespaces of holders; holderNamespace has places in this list"`
	HolderNamespace []int    `json:"holderNamespace"`
	HolderJob       []string `json:"holderJob" doc:"The jobs, or pods without one, that hold GPUs, where you may list pods"`
	Held            [][]int  `json:"held" doc:"What holds the GPUs of the node, as pairs: the place among the holders, -1 for none that you may see, and how many GPUs from there on. Of several that share a GPU, the first that you may see" example:"[[0,4,-1,4]]"`

	Fits []PoolFits `json:"fits" doc:"How many pods of each size would find room as a whole in the free GPUs of each pool"`
}

// NodeNumbers are the driver's numbers of a node's GPUs.
type NodeNumbers struct {
	Node    int   `json:"node" doc:"The place of the node"`
	Numbers []int `json:"numbers" doc:"One for each letter" example:"[0,2,5,7]"`
}

// NodeCounts counts the GPUs of a node without those in MIG mode. Where a device plugin divides them under the name of whole ones, GPUs are counted, and each
// letter is a part of one.
type NodeCounts struct {
	Node  int   `json:"node" doc:"The place of the node"`
	Total int64 `json:"total"`
	Used  int64 `json:"used" doc:"Those that pods hold, whole or in part, without unhealthy ones"`
	Room  int64 `json:"room" doc:"Those that a pod could get as a whole: 0 on a node that only shares its GPUs"`
}

// Fault is what is wrong with a GPU.
type Fault struct {
	Node   int    `json:"node" doc:"The place of the node"`
	GPU    int    `json:"gpu" doc:"The place of the GPU in its node"`
	Health string `json:"health"`
}

// PoolFits is how many pods of each of [fitSizes] would find room in a pool, if pods of that size alone came.
type PoolFits struct {
	Pool string  `json:"pool"`
	Free int64   `json:"free"`
	Pods []int64 `json:"pods" doc:"Pods of 1, 2, 4 and 8 GPUs" example:"[11,5,2,0]"`
}

// fitSizes are the sizes of pods, in GPUs, for which the map reports what fits.
var fitSizes = []int64{1, 2, 4, 8}

// stateLetters are the states of GPUs in a map.
var stateLetters = map[usage.State]byte{usage.Free: 'f', usage.Whole: 'u', usage.Shared: 's', usage.Held: 'h', usage.Unhealthy: 'x'}

// migLetter is the state of a healthy GPU in MIG mode, whose slices are offered in its place.
const migLetter = 'm'

// mapRow is a node of the map.
type mapRow struct {
	name, pool, gpuType, rack, status string
	total, used, free, room           int64
	states                            string
	numbers                           []int // nil where they are 0, 1, 2 and so on
	health                            []string
	holders                           [][]usage.Holder // of each GPU
}

func (r *mapRow) equalsRow(other *mapRow) bool {
	return r.name == other.name && r.pool == other.pool && r.gpuType == other.gpuType && r.rack == other.rack && r.status == other.status && r.equalsGPUs(other)
}

func (r *mapRow) equalsGPUs(other *mapRow) bool {
	return r.total == other.total && r.used == other.used && r.free == other.free && r.room == other.room && r.states == other.states &&
		slices.Equal(r.numbers, other.numbers) && slices.Equal(r.health, other.health) && slices.EqualFunc(r.holders, other.holders, slices.Equal)
}

// countsLetters reports whether there is a GPU for each letter.
func (r *mapRow) countsLetters() bool {
	idle := strings.Count(r.states, "f") + strings.Count(r.states, "x")
	return r.total == int64(len(r.states)) && r.used == int64(len(r.states)-idle) && r.room == r.free
}

// mapRows returns the nodes with GPUs, sorted by name. They are built once per view.
func (v *view) mapRows() []mapRow {
	v.findRows.Do(func() {
		known, cards := make(map[string]*inventory.Node, len(v.Nodes)), v.gpusByNode()
		for i := range v.Nodes {
			known[v.Nodes[i].Name] = &v.Nodes[i]
		}
		counted := v.gpuUsage().Nodes
		v.cachedRows = make([]mapRow, 0, len(counted))
		for i := range counted {
			if node := known[counted[i].Name]; node != nil {
				v.cachedRows = append(v.cachedRows, buildMapRow(node, &counted[i], cards[node.Name]))
			}
		}
	})
	return v.cachedRows
}

// buildMapRow describes a node by its GPUs that are offered whole or in part, and those in MIG mode. They are counted as everywhere else: in GPUs, also where
// each of cards is a part of one.
func buildMapRow(node *inventory.Node, counted *usage.Node, cards []usage.GPU) mapRow {
	row := mapRow{
		name: node.Name, pool: node.Pool, gpuType: node.GPUType, rack: node.Rack, status: nodeStatus(node),
		total: counted.GPUs, used: counted.Used, free: counted.Free, room: node.GPUs.Free,
	}
	all := slices.Concat(cards, counted.Sliced)
	slices.SortStableFunc(all, func(a, b usage.GPU) int { return cmp.Compare(a.Index, b.Index) })
	states, sliced := make([]byte, len(all)), indexesOf(counted.Sliced)
	row.health, row.holders, row.numbers = make([]string, len(all)), make([][]usage.Holder, len(all)), indexesOf(all)
	for i := range all {
		inMIGMode := slices.Contains(sliced, all[i].Index)
		states[i], row.health[i], row.holders[i] = stateLetters[all[i].State], all[i].Health, all[i].Holders
		switch {
		case all[i].State == usage.Unhealthy && !inMIGMode && len(all[i].Holders) > 0:
			row.used--
		case all[i].State != usage.Unhealthy && inMIGMode:
			states[i] = migLetter
		}
	}
	row.states = string(states)
	if isCounting(row.numbers) {
		row.numbers = nil
	}
	return row
}

// indexesOf returns the driver's numbers of GPUs.
func indexesOf(cards []usage.GPU) []int {
	out := make([]int, len(cards))
	for i := range cards {
		out[i] = cards[i].Index
	}
	return out
}

// isCounting reports whether numbers are 0, 1, 2 and so on.
func isCounting(numbers []int) bool {
	for i, number := range numbers {
		if i != number {
			return false
		}
	}
	return true
}

// buildMap puts rows into columns, with the holders of visible namespaces. fits is what the rows of the whole cluster have room for.
func buildMap(rows []mapRow, fits []PoolFits, visible func(namespace string) bool, taken time.Time) *GPUMap {
	out := &GPUMap{
		Taken: taken, Fits: fits, Nodes: make([]string, len(rows)), Free: make([]int64, len(rows)), GPUs: make([]string, len(rows)), Held: make([][]int, len(rows)),
		Pool: make([]int, len(rows)), Type: make([]int, len(rows)), Rack: make([]int, len(rows)), Status: make([]int, len(rows)),
		Pools: []string{}, Types: []string{}, Racks: []string{}, Statuses: []string{}, Namespaces: []string{}, HolderNamespace: []int{}, HolderJob: []string{},
	}
	pools, types, racks, statuses := internList(&out.Pools), internList(&out.Types), internList(&out.Racks), internList(&out.Statuses)
	holders := newHolderColumns(out, visible)
	for i := range rows {
		row := &rows[i]
		out.Nodes[i], out.Free[i], out.GPUs[i] = row.name, row.free, row.states
		out.Pool[i], out.Type[i], out.Rack[i], out.Status[i] = pools(row.pool), types(row.gpuType), racks(row.rack), statuses(row.status)
		out.Held[i] = holders.encodeRuns(row.holders)
		if !row.countsLetters() {
			out.Counts = append(out.Counts, NodeCounts{Node: i, Total: row.total, Used: row.used, Room: row.room})
		}
		if row.numbers != nil {
			out.Numbers = append(out.Numbers, NodeNumbers{Node: i, Numbers: row.numbers})
		}
		for gpu, health := range row.health {
			if health != "" {
				out.Faults = append(out.Faults, Fault{Node: i, GPU: gpu, Health: health})
			}
		}
	}
	return out
}

// internList returns a function that gives each text its place in a list.
func internList(list *[]string) func(string) int {
	places := map[string]int{}
	return func(text string) int {
		place, known := places[text]
		if !known {
			place = len(*list)
			places[text] = place
			*list = append(*list, text)
		}
		return place
	}
}

// holderColumns gives each job that holds GPUs its place among the holders.
type holderColumns struct {
	out       *GPUMap
	visible   func(namespace string) bool
	namespace func(string) int
	places    map[usage.Holder]int
}

func newHolderColumns(out *GPUMap, visible func(namespace string) bool) *holderColumns {
	return &holderColumns{out: out, visible: visible, namespace: internList(&out.Namespaces), places: map[usage.Holder]int{}}
}

// encodeRuns returns the holders of a node's GPUs as pairs of a place and a length.
func (h *holderColumns) encodeRuns(holders [][]usage.Holder) []int {
	runs := []int{}
	for _, sharing := range holders {
		place := h.placeOf(sharing)
		if last := len(runs) - 2; last >= 0 && runs[last] == place {
			runs[last+1]++
			continue
		}
		runs = append(runs, place, 1)
	}
	return runs
}

// placeOf returns the place of the first of those that share a GPU that is visible, -1 if none is.
func (h *holderColumns) placeOf(sharing []usage.Holder) int {
	first := slices.IndexFunc(sharing, func(holder usage.Holder) bool { return h.visible(holder.Namespace) })
	if first < 0 {
		return -1
	}
	holder := sharing[first]
	name := holder.Job
	if name == "" {
		name = holder.Pod
	}
	key := usage.Holder{Namespace: holder.Namespace, Job: name}
	place, known := h.places[key]
	if !known {
		place = len(h.out.HolderJob)
		h.places[key] = place
		h.out.HolderJob = append(h.out.HolderJob, name)
		h.out.HolderNamespace = append(h.out.HolderNamespace, h.namespace(holder.Namespace))
	}
	return place
}

// countFits returns how many pods of each size the free GPUs of each pool have room for. The pools are sorted by name.
func countFits(rows []mapRow) []PoolFits {
	out := []PoolFits{}
	for i := range rows {
		place, known := slices.BinarySearchFunc(out, rows[i].pool, func(fits PoolFits, pool string) int { return strings.Compare(fits.Pool, pool) })
		if !known {
			out = slices.Insert(out, place, PoolFits{Pool: rows[i].pool, Pods: make([]int64, len(fitSizes))})
		}
		out[place].Free += rows[i].free
		for j, size := range fitSizes {
			out[place].Pods[j] += rows[i].room / size
		}
	}
	return out
}

// changedRows returns the rows that differ from those before. ok is false if nodes have come or gone.
func changedRows(before, now []mapRow) (changed []mapRow, ok bool) {
	if len(before) != len(now) {
		return nil, false
	}
	for i := range now {
		if before[i].name != now[i].name {
			return nil, false
		}
		if !now[i].equalsRow(&before[i]) {
			changed = append(changed, now[i])
		}
	}
	return changed, true
}
