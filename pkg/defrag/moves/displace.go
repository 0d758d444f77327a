package moves

import "slices"

// displace has the first pod take the place of others, which then need one.
func (a *attempt[P]) displace(rest []leaver[P], options []clearing[P], extra int) bool {
	first, most := rest[0], extra
	if a.single {
		most = 1
	}
	homeless := map[int]bool{} // by kind, as things are now
	for i := range options {
		o := &options[i]
		if o.least > most || a.tries > a.until {
			return false
		}
		if len(o.leaving) == most && a.anyHomeless(o.leaving, homeless) {
			continue
		}
		if o.node != a.closed && !slices.Contains(first.via, o.node) && a.canGo(first.pod, o) && a.step(rest, o.node, o.leaving, extra) {
			return true
		}
	}
	return false
}

// anyHomeless reports whether any of some pods finds no room as things are. It asks once for each kind.
func (a *attempt[P]) anyHomeless(pods []P, known map[int]bool) bool {
	return slices.ContainsFunc(pods, func(pod P) bool {
		kind := a.Kind(pod)
		homeless, ok := known[kind]
		if !ok {
			homeless = len(a.Rooms(pod, a.closed)) == 0
			known[kind] = homeless
		}
		return homeless
	})
}

// canGo reports whether a pod still fits where others leave, after what has been moved by now.
func (a *attempt[P]) canGo(pod P, o *clearing[P]) bool {
	if slices.ContainsFunc(o.leaving, func(other P) bool { return a.displaced[other] }) {
		return false
	}
	a.tries++
	var undo []func()
	for _, other := range o.leaving {
		undo = append(undo, a.Take(other, o.node))
	}
	fits := a.Fits(pod, o.node)
	for _, back := range slices.Backward(undo) {
		back()
	}
	return fits
}

// others returns the single pods in whose place a pod fits as things were in the beginning, the most promising first.
func (a *attempt[P]) others(pod P) []clearing[P] {
	options, known := a.alone[a.Kind(pod)]
	if !known {
		a.unknown = append(a.unknown, func() { a.findOthers(pod) })
	}
	return options
}

func (s *search[P]) findOthers(pod P) {
	if _, known := s.alone[s.Kind(pod)]; known {
		return
	}
	var options []clearing[P]
	for node, there := range s.movable {
		for i, other := range there {
			back := s.Take(other, node)
			if s.Fits(pod, node) {
				options = append(options, s.clearing(node, there[i:i+1]))
			}
			back()
		}
	}
	s.alone[s.Kind(pod)] = sorted(options)
}

// groups returns the sets of two or more pods in whose place a pod fits, likewise.
func (a *attempt[P]) groups(pod P) []clearing[P] {
	options, known := a.together[a.Kind(pod)]
	if !known {
		a.unknown = append(a.unknown, func() { a.findGroups(pod) })
	}
	return options
}

func (s *search[P]) findGroups(pod P) {
	if _, known := s.together[s.Kind(pod)]; known {
		return
	}
	var options []clearing[P]
	for node := range s.movable {
		options = append(options, s.clear(node, pod, maxGroup)...)
	}
	options = slices.DeleteFunc(options, func(c clearing[P]) bool { return len(c.leaving) == 1 })
	s.together[s.Kind(pod)] = sorted(options)
}
