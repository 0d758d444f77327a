package moves

import (
	"iter"
	"slices"
)

const (
	// maxChain bounds the length of a chain of displaced pods.
	maxChain = 3
	// maxGroup bounds the pods that together make place for one.
	maxGroup = 4
)

// attempt searches places for the pods of one eviction. It moves pods step by step and takes back steps that lead nowhere.
type attempt[P comparable] struct {
	*search[P]
	node   int // to clear
	single bool
	// strict keeps pods off the nodes that wait for them to leave.
	strict  bool
	until   int // tries
	steps   []step[P]
	evicted map[P]bool // by the steps
	// unknown are the missing lookups. They are made when all pods are in place.
	unknown []lookup[P]
	// stuck is the pod without a place when the fewest pods were left.
	stuck P
	left  int
}

// displacedPod is a pod without a place.
type displacedPod[P comparable] struct {
	pod  P
	from int
	// via are the nodes that wait for this pod to leave: the one that it leaves, if another pod takes its place there, and so on.
	via []handover[P]
}

// handover is a node whose pods make place for another pod, which arrives after they have left.
type handover[P comparable] struct {
	node  int
	comes P
	// still are the pods that remain on the node when the pod leaves for which this is: it and those that leave after it.
	still []P
}

// isVia reports whether a node waits for a pod to leave.
func (h *displacedPod[P]) isVia(node int) bool {
	return slices.ContainsFunc(h.via, func(v handover[P]) bool { return v.node == node })
}

// place is where a pod can go: a node with room, or one that other pods leave for it.
type place[P comparable] struct {
	node   int
	others []P
}

// step is a moved pod. The steps of the pods that it displaced follow.
type step[P comparable] struct {
	Move[P]
	displaced []P
	undo      []func()
}

// runAttempt makes an attempt and undoes its changes. The moves of the plan may be impossible in their order.
func (a *attempt[P]) runAttempt(pods []P, extra int) (plan Plan[P], ok bool) {
	var undo []func()
	var waiting []displacedPod[P]
	for _, pod := range pods {
		undo = append(undo, a.RemovePod(pod, a.node))
		waiting = append(waiting, displacedPod[P]{pod: pod, from: a.node})
	}
	undo = append(undo, a.PlacePod(a.pod, a.node))
	if ok = a.placeAll(waiting, extra); ok {
		plan = Plan[P]{Node: a.node, Moves: inOrder(a.steps)}
	}
	for len(a.steps) > 0 {
		a.stepBack()
	}
	undoAll(undo)
	for _, move := range plan.Moves {
		plan.Milli += a.PodMilli(move.Pod)
	}
	return plan, ok
}

// canBeMade tests the moves of a plan one after another, as in reality, and undoes them. The search makes all of them at once, so that pods on shared
// GPUs may be packed closer than they ever will be.
func (s *search[P]) canBeMade(plan *Plan[P]) bool {
	var undo []func()
	defer func() { undoAll(undo) }()
	for _, move := range plan.Moves {
		if !s.FitsOn(move.Pod, move.To) {
			return false
		}
		undo = append(undo, s.RemovePod(move.Pod, move.From), s.PlacePod(move.Pod, move.To))
	}
	return s.FitsOn(s.pod, plan.Node)
}

// placeAll finds places for all waiting pods and may displace a number of others. On failure it restores the state.
func (a *attempt[P]) placeAll(waiting []displacedPod[P], extra int) bool {
	if len(waiting) == 0 {
		return true
	}
	first, rest := waiting[0], waiting[1:]
	if len(first.via) == 0 && len(waiting) < a.left {
		a.stuck, a.left = first.pod, len(waiting)
	}
	for to := range a.placesFor(&first, extra) {
		displaced := a.takeStep(&first, to)
		if a.placeAll(append(displaced, rest...), extra-len(to.others)) {
			return true
		}
		a.stepBack()
	}
	return false
}

// takeStep moves a pod to a place, and returns the pods that it displaces.
func (a *attempt[P]) takeStep(first *displacedPod[P], to place[P]) (displaced []displacedPod[P]) {
	s := step[P]{Move: Move[P]{Pod: first.pod, From: first.from, To: to.node}, displaced: to.others}
	for i, other := range to.others {
		via := append(slices.Clip(first.via), handover[P]{node: to.node, comes: first.pod, still: to.others[i:]})
		displaced = append(displaced, displacedPod[P]{pod: other, from: to.node, via: via})
		s.undo = append(s.undo, a.RemovePod(other, to.node))
		a.evicted[other] = true
	}
	s.undo = append(s.undo, a.PlacePod(first.pod, to.node))
	a.steps = append(a.steps, s)
	return displaced
}

// stepBack undoes the last step.
func (a *attempt[P]) stepBack() {
	last := a.steps[len(a.steps)-1]
	a.steps = a.steps[:len(a.steps)-1]
	undoAll(last.undo)
	for _, other := range last.displaced {
		delete(a.evicted, other)
	}
}

func undoAll(undo []func()) {
	for _, one := range slices.Backward(undo) {
		one()
	}
}

// inOrder returns the moves in an order in which each has room: displaced pods go first.
func inOrder[P comparable](steps []step[P]) (moves []Move[P]) {
	for len(steps) > 0 {
		moves, steps = appendChain(moves, steps)
	}
	return moves
}

// appendChain appends the move of the first step after those of the pods that it displaced, and returns the remaining steps.
func appendChain[P comparable](moves []Move[P], steps []step[P]) ([]Move[P], []step[P]) {
	first, rest := steps[0], steps[1:]
	for range first.displaced {
		moves, rest = appendChain(moves, rest)
	}
	return append(moves, first.Move), rest
}

// placesFor yields the current places for a pod, the most promising first: free places, then those of one other pod, then those of several.
func (a *attempt[P]) placesFor(of *displacedPod[P], extra int) iter.Seq[place[P]] {
	return func(yield func(place[P]) bool) {
		if !a.yieldRooms(of, yield) || extra == 0 || len(of.via) == maxChain || a.single && len(of.via) > 0 {
			return
		}
		if !yieldAll(a.placesOf(a.singleOptions(of.pod), of, extra), yield) || extra == 1 || a.single {
			return
		}
		yieldAll(a.placesOf(a.groupOptions(of.pod), of, extra), yield)
	}
}

// yieldRooms yields the nodes with room for a pod, and reports whether to continue.
func (a *attempt[P]) yieldRooms(of *displacedPod[P], yield func(place[P]) bool) bool {
	for _, room := range a.NodesWithRoom(of.pod, a.node) {
		if a.tries++; a.tries > a.until || a.fitsNow(of, room) && !yield(place[P]{node: room}) {
			return false
		}
	}
	return true
}

// fitsNow reports whether a pod that fits on a node after the moves of those that wait for it also fits before them, because it moves first. The
// remaining pods may get other GPUs here than they hold: [search.canBeMade] decides.
func (a *attempt[P]) fitsNow(of *displacedPod[P], node int) bool {
	if node == of.from || a.strict && of.isVia(node) {
		return false
	}
	i := slices.IndexFunc(of.via, func(v handover[P]) bool { return v.node == node })
	if i < 0 {
		return true
	}
	undo := []func(){a.RemovePod(of.via[i].comes, node)}
	defer func() { undoAll(undo) }()
	for _, other := range of.via[i].still {
		if !a.FitsOn(other, node) {
			return false
		}
		undo = append(undo, a.PlacePod(other, node))
	}
	return a.FitsOn(of.pod, node)
}

// yieldAll yields another sequence, and reports whether to continue.
func yieldAll[T any](of iter.Seq[T], yield func(T) bool) bool {
	for each := range of {
		if !yield(each) {
			return false
		}
	}
	return true
}

// placesOf yields the places of other pods that a pod can take with at most a number of moves.
func (a *attempt[P]) placesOf(options []eviction[P], of *displacedPod[P], most int) iter.Seq[place[P]] {
	if a.single {
		most = 1
	}
	return func(yield func(place[P]) bool) {
		found := map[int]bool{} // by class, whether there is room now
		for i := range options {
			o := &options[i]
			if o.least > most || a.tries > a.until {
				return
			}
			if len(o.pods) == most && !a.haveRoom(o.pods, found) || o.node == a.node || of.isVia(o.node) {
				continue
			}
			if a.canGo(of.pod, o) && !yield(place[P]{o.node, o.pods}) {
				return
			}
		}
	}
}

// haveRoom reports whether each of the pods currently finds room. It checks once per class.
func (a *attempt[P]) haveRoom(pods []P, found map[int]bool) bool {
	return !slices.ContainsFunc(pods, func(pod P) bool {
		kind := a.PodClass(pod)
		if _, known := found[kind]; !known {
			found[kind] = len(a.NodesWithRoom(pod, a.node)) > 0
		}
		return !found[kind]
	})
}

// canGo reports whether a pod still fits where others leave, after the moves so far.
func (a *attempt[P]) canGo(pod P, o *eviction[P]) bool {
	if slices.ContainsFunc(o.pods, func(other P) bool { return a.evicted[other] }) {
		return false
	}
	a.tries++
	var undo []func()
	for _, other := range o.pods {
		undo = append(undo, a.RemovePod(other, o.node))
	}
	defer undoAll(undo)
	return a.FitsOn(pod, o.node)
}

// lookup is a query on the initial state, with all pods in place: in whose place a pod fits.
type lookup[P comparable] struct {
	pod P
	// groups selects sets of two or more pods, else single ones.
	groups bool
}

// singleOptions returns the single pods in whose place a pod fits, the most promising first.
func (a *attempt[P]) singleOptions(pod P) []eviction[P] {
	options, known := a.alone[a.PodClass(pod)]
	if !known {
		a.unknown = append(a.unknown, lookup[P]{pod, false})
	}
	return options
}

// groupOptions returns the sets of two or more pods in whose place a pod fits, the most promising first.
func (a *attempt[P]) groupOptions(pod P) []eviction[P] {
	options, known := a.together[a.PodClass(pod)]
	if !known {
		a.unknown = append(a.unknown, lookup[P]{pod, true})
	}
	return options
}

// lookUp makes the missing lookups of an attempt, and reports whether there were any.
func (a *attempt[P]) lookUp() bool {
	for _, l := range a.unknown {
		kind := a.PodClass(l.pod)
		if _, known := a.together[kind]; l.groups && !known {
			a.together[kind] = a.findGroups(l.pod)
		}
		if _, known := a.alone[kind]; !l.groups && !known {
			a.alone[kind] = a.findOthers(l.pod)
		}
	}
	return len(a.unknown) > 0
}

func (s *search[P]) findOthers(pod P) []eviction[P] {
	var options []eviction[P]
	for node, there := range s.movable {
		for i, other := range there {
			back := s.RemovePod(other, node)
			if s.FitsOn(pod, node) {
				options = append(options, s.newEviction(node, there[i:i+1]))
			}
			back()
		}
	}
	return sortEvictions(options)
}

func (s *search[P]) findGroups(pod P) []eviction[P] {
	var options []eviction[P]
	for node := range s.movable {
		options = append(options, s.evictionsFrom(node, pod, maxGroup)...)
	}
	return sortEvictions(slices.DeleteFunc(options, func(e eviction[P]) bool { return len(e.pods) == 1 }))
}
