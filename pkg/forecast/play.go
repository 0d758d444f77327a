package forecast

import (
	"math/rand/v2"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/survival"
)

// levels is the number of classes of nodes by free GPUs; nodes with more are in the last one.
const levels = 17

// simulation is one simulation of the queue.
type simulation struct {
	state *State
	// queues are the waiting jobs by their shape, in order.
	queues [][]int32
	// large are the largest pods of each shape.
	large []block
	// budget is how many steps are left.
	budget int

	free  []Amounts
	level [levels]*Nodes
	// quotas is what each of them has left.
	quotas []int64
	ends   endHeap
	// head is how many jobs of each line have started, and order the shapes with waiting jobs, by the first of those.
	head   []int
	order  []int32
	starts []time.Duration
	// runs is how long each waiting job will run, and on the holds of those that have started.
	runs []time.Duration
	on   [][]Hold
}

func newSimulation(state *State, budget int) *simulation {
	p := &simulation{
		state: state, budget: budget, queues: make([][]int32, len(state.Shapes)), large: make([]block, len(state.Shapes)),
		free: make([]Amounts, len(state.Free)), quotas: make([]int64, len(state.Quotas)), head: make([]int, len(state.Shapes)),
		runs: make([]time.Duration, len(state.Waiting)), on: make([][]Hold, len(state.Waiting)),
	}
	for i := range p.level {
		p.level[i] = NewNodes(len(state.Free))
	}
	for i := range state.Waiting {
		shape := state.Waiting[i].Shape
		p.queues[shape] = append(p.queues[shape], int32(i))
	}
	for i := range state.Shapes {
		p.large[i] = largestPods(state.Shapes[i].Pods)
	}
	return p
}

// block is a number of pods that request so many GPUs each.
type block struct {
	pods int
	gpus int64
}

// largestPods returns the pods of a shape with the largest request.
func largestPods(pods []Pod) (out block) {
	for i := range pods {
		switch gpus := pods[i].Needs[GPUs]; {
		case gpus > out.gpus:
			out = block{1, gpus}
		case gpus == out.gpus:
			out.pods++
		}
	}
	return out
}

func (p *simulation) isExhausted() bool { return p.budget <= 0 }

// simulateStarts simulates the queue until the requested job and all before it have started, or until nothing happens any more. It returns all
// start times; nothing if the budget was used up before.
func (p *simulation) simulateStarts(rng *rand.Rand, asked int) []time.Duration {
	p.drawRunTimes(rng)
	left := asked + 1
	now := time.Duration(0)
	for {
		left -= p.startFitting(now, asked)
		if left == 0 || len(p.ends) == 0 {
			return p.starts[:asked+1]
		}
		if p.isExhausted() {
			return nil
		}
		for now = p.ends[0].at; len(p.ends) > 0 && p.ends[0].at == now; {
			p.endJob(p.ends.popJob())
		}
	}
}

// drawRunTimes draws all run times. They do not depend on the course of the simulation.
func (p *simulation) drawRunTimes(rng *rand.Rand) {
	copy(p.free, p.state.Free)
	copy(p.quotas, p.state.Quotas)
	for i := range p.level {
		p.level[i].clearNodes()
	}
	for node := range p.free {
		p.level[p.levelOf(node)].Add(node)
	}
	p.ends = p.ends[:0]
	luck := newLuck(rng)
	for i := range p.state.Running {
		at := time.Duration(0)
		for _, end := range p.state.Running[i].Ends {
			at = max(at, end.Quantile(luck.nextQuantile()))
		}
		if at != survival.Never {
			p.ends = append(p.ends, jobEnd{at, int32(i)})
		}
	}
	p.ends.initHeap()
	p.starts = make([]time.Duration, len(p.state.Waiting))
	for i := range p.runs {
		p.runs[i], p.starts[i], p.on[i] = p.state.Waiting[i].Runs.Quantile(luck.nextQuantile()), survival.Never, p.on[i][:0]
	}
	clear(p.head)
	p.order = p.order[:0]
	for shape := range p.queues {
		if len(p.queues[shape]) > 0 {
			p.order = append(p.order, int32(shape))
		}
	}
	slices.SortFunc(p.order, func(a, b int32) int { return int(p.nextJob(a) - p.nextJob(b)) })
	p.budget -= len(p.free) + len(p.ends) + len(p.runs)
}

// startFitting starts the jobs that fit now, in queue order, and returns how many of them were requested. A shape that did not fit is not tried
// again: there is less room than before.
func (p *simulation) startFitting(now time.Duration, asked int) (started int) {
	for i := 0; i < len(p.order); {
		p.budget--
		shape := int(p.order[i])
		job := int(p.queues[shape][p.head[shape]])
		if !p.placeJob(shape, job) {
			i++
			continue
		}
		p.starts[job] = now
		p.advanceQueue(i)
		if job <= asked {
			started++
		}
		if runs := p.runs[job]; runs < survival.Never-now {
			p.ends.pushEnd(jobEnd{now + runs, int32(len(p.state.Running) + job)})
		}
	}
	return started
}

// advanceQueue removes the first job of a shape from its line, and moves the shape to the position of its next job.
func (p *simulation) advanceQueue(i int) {
	shape := p.order[i]
	if p.head[shape]++; p.head[shape] == len(p.queues[shape]) {
		p.order = slices.Delete(p.order, i, i+1)
		return
	}
	next := p.queues[shape][p.head[shape]]
	for ; i+1 < len(p.order) && p.nextJob(p.order[i+1]) < next; i++ {
		p.budget--
		p.order[i] = p.order[i+1]
	}
	p.order[i] = shape
}

// nextJob returns the first waiting job of a shape.
func (p *simulation) nextJob(shape int32) int32 { return p.queues[shape][p.head[shape]] }

// placeJob puts all pods of a job on nodes, or none.
func (p *simulation) placeJob(shape, job int) bool {
	shares := p.state.Shapes[shape].Shares
	if !p.quotasAllow(shares) || !p.mayFit(p.large[shape]) {
		return false
	}
	pods := p.state.Shapes[shape].Pods
	for i := range pods {
		node := p.findNode(&pods[i])
		if node < 0 {
			p.releaseHolds(p.on[job])
			p.on[job] = p.on[job][:0]
			return false
		}
		p.on[job] = append(p.on[job], Hold{node, pods[i].Needs})
		p.changeFree(node, &pods[i].Needs, -1)
	}
	p.takeShares(shares, 1)
	return true
}

// quotasAllow reports whether quotas have enough left.
func (p *simulation) quotasAllow(shares []Share) bool {
	p.budget -= len(shares)
	return !slices.ContainsFunc(shares, func(s Share) bool { return s.Amount > p.quotas[s.Quota] })
}

func (p *simulation) takeShares(shares []Share, sign int64) {
	p.budget -= len(shares)
	for _, share := range shares {
		p.quotas[share.Quota] -= sign * share.Amount
	}
}

// mayFit only checks the numbers of free GPUs, which is fast.
func (p *simulation) mayFit(pods block) bool {
	p.budget -= levels
	if pods.gpus == 0 || pods.gpus >= levels-1 || p.level[levels-1].size > 0 { // those of the last level may have more
		return true
	}
	left := pods.pods
	for level := levels - 2; level >= int(pods.gpus); level-- {
		left -= p.level[level].size * (level / int(pods.gpus))
	}
	return left <= 0
}

// findNode returns the node on which a pod leaves the fewest GPUs, -1 for none.
func (p *simulation) findNode(pod *Pod) int {
	for level := min(pod.Needs[GPUs], levels-1); level < levels; level++ {
		for node := p.level[level].nextIn(0, pod.On); node >= 0; node = p.level[level].nextIn(node+1, pod.On) {
			p.budget--
			if p.free[node].canHold(&pod.Needs) {
				return node
			}
		}
	}
	p.budget -= levels
	return -1
}

func (p *simulation) endJob(job int32) {
	if int(job) < len(p.state.Running) {
		p.releaseHolds(p.state.Running[job].Holds)
		p.takeShares(p.state.Running[job].Shares, -1)
		return
	}
	waited := int(job) - len(p.state.Running)
	p.releaseHolds(p.on[waited])
	p.takeShares(p.state.Shapes[p.state.Waiting[waited].Shape].Shares, -1)
}

func (p *simulation) releaseHolds(holds []Hold) {
	p.budget -= len(holds)
	for i := range holds {
		p.changeFree(holds[i].Node, &holds[i].Amounts, 1)
	}
}

func (p *simulation) changeFree(node int, by *Amounts, sign int64) {
	before := p.levelOf(node)
	p.free[node].addAmounts(by, sign)
	if after := p.levelOf(node); after != before {
		p.level[before].removeNode(node)
		p.level[after].Add(node)
	}
}

func (p *simulation) levelOf(node int) int64 { return min(max(p.free[node][GPUs], 0), levels-1) }
