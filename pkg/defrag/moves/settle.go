package moves

import "slices"

const (
	// directTries and singleTries are how long places are looked for in a hurry.
	directTries, singleTries = 64, 256
	// attemptShare is the part of all tries that one set of pods may take.
	attemptShare = 64
	// maxChain is how many pods may follow each other from place to place.
	maxChain = 3
	// maxGroup is how many pods may make place for one together.
	maxGroup = 4
)

// settle looks for places for the pods of a clearing. When there is none for one of them, another may have taken it: then
// that one chooses first. In whose place a pod fits is looked up when nothing is away from its place, so what an attempt
// misses is found out after it, for the next.
func (s *search[P]) settle(c *clearing[P], how manner) (plan Plan[P], ok bool) {
	until, leaving, reordered := min(s.limits.Tries, s.tries+how.tries), slices.Clone(c.leaving), 0
	for {
		a := &attempt[P]{search: s, closed: c.node, single: how.single, displaced: map[P]bool{}, until: until, left: len(leaving) + 1}
		plan, ok = a.run(leaving, how.extra)
		switch stuck := slices.Index(leaving, a.stuck); {
		case ok || s.tries > until:
			return plan, ok
		case len(a.unknown) > 0:
			for _, find := range a.unknown {
				find()
			}
		case stuck < 1 || reordered == len(leaving):
			return plan, false
		default:
			leaving = slices.Insert(slices.Delete(leaving, stuck, stuck+1), 0, a.stuck)
			reordered++
		}
	}
}

// run makes an attempt, and undoes what it did.
func (a *attempt[P]) run(leaving []P, extra int) (plan Plan[P], ok bool) {
	defer func() { a.rollback(0) }()
	rest := make([]leaver[P], len(leaving))
	for i, pod := range leaving {
		rest[i] = leaver[P]{pod: pod, from: a.closed}
		a.undo = append(a.undo, a.Take(pod, a.closed))
	}
	a.undo = append(a.undo, a.Put(a.pod, a.closed))
	if !a.place(rest, extra) {
		return plan, false
	}
	plan = Plan[P]{Node: a.closed, Moves: a.inOrder()}
	for _, move := range plan.Moves {
		plan.Milli += a.Milli(move.Pod)
	}
	return plan, true
}

// leaver is a pod without a place.
type leaver[P comparable] struct {
	pod  P
	from int
	// via are the nodes that have no more room before this pod has gone: the one that it leaves, when another takes its
	// place there, and so on.
	via []int
}

// attempt places the pods of one clearing.
type attempt[P comparable] struct {
	*search[P]
	closed    int // the node that is cleared
	single    bool
	displaced map[P]bool
	steps     []step[P]
	undo      []func()
	until     int // tries
	unknown   []func()
	// stuck is the pod for which no place was found when the fewest were left.
	stuck P
	left  int
}

// step is a move as it was found: those of the pods that it displaces follow.
type step[P comparable] struct {
	Move[P]
	displaces int
}

func (a *attempt[P]) rollback(mark int) {
	for _, undo := range slices.Backward(a.undo[mark:]) {
		undo()
	}
	a.undo = a.undo[:mark]
}

// place finds places for all that have none, and may displace so many others.
func (a *attempt[P]) place(rest []leaver[P], extra int) bool {
	if len(rest) == 0 {
		return true
	}
	first := rest[0]
	if len(first.via) == 0 && len(rest) < a.left {
		a.stuck, a.left = first.pod, len(rest)
	}
	for _, room := range a.Rooms(first.pod, a.closed) {
		if a.tries++; a.tries > a.until {
			return false
		}
		if !slices.Contains(first.via, room) && a.step(rest, room, nil, extra) {
			return true
		}
	}
	return a.placeForOthers(rest, extra)
}

// placeForOthers has the first pod, for which there is no room, take the place of one other pod, or of several.
func (a *attempt[P]) placeForOthers(rest []leaver[P], extra int) bool {
	first := rest[0]
	switch {
	case extra == 0 || len(first.via) == maxChain || a.single && len(first.via) > 0:
		return false
	case a.displace(rest, a.others(first.pod), extra):
		return true
	}
	return extra > 1 && !a.single && a.displace(rest, a.groups(first.pod), extra)
}

// step moves the first pod to where it displaces others, and undoes that unless all that follows succeeds.
func (a *attempt[P]) step(rest []leaver[P], to int, others []P, extra int) bool {
	first, mark := rest[0], len(a.undo)
	var next []leaver[P]
	for _, other := range others {
		next = append(next, leaver[P]{pod: other, from: to, via: append(slices.Clip(first.via), to)})
		a.undo = append(a.undo, a.Take(other, to))
		a.displaced[other] = true
	}
	a.undo = append(a.undo, a.Put(first.pod, to))
	a.steps = append(a.steps, step[P]{Move[P]{Pod: first.pod, From: first.from, To: to}, len(others)})
	if a.place(append(next, rest[1:]...), extra-len(others)) {
		return true
	}
	a.steps = a.steps[:len(a.steps)-1]
	for _, other := range others {
		delete(a.displaced, other)
	}
	a.rollback(mark)
	return false
}

// inOrder returns the moves in the order in which there is room for each: who is displaced goes first.
func (a *attempt[P]) inOrder() []Move[P] {
	var moves []Move[P]
	at := 0
	var follow func()
	follow = func() {
		step := a.steps[at]
		at++
		for range step.displaces {
			follow()
		}
		moves = append(moves, step.Move)
	}
	for at < len(a.steps) {
		follow()
	}
	return moves
}
