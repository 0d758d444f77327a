package recorder

import corev1 "k8s.io/api/core/v1"

const (
	// remembered is of how many pods it is known what was read of them, and mostReadings how often one is read that goes on
	// as it is: each change of a pod that ends is told, and users can change theirs as often as they like.
	remembered   = 4 * waiting
	mostReadings = 2
)

// past is what was read of a pod.
type past struct {
	// readings is how often it was read, since it ended if it has.
	readings        int
	ended, followed bool
	// tooMuch says that it prints more than is read.
	tooMuch bool
}

// again reports whether there is something to read that was not there the last time, or it may have failed then.
func (p past) again(ended, follow bool) bool {
	switch {
	case ended && !p.ended:
		return true
	case p.tooMuch:
		return false
	case follow && !p.followed:
		return true
	}
	return p.readings < mostReadings
}

// with is the past after one more reading.
func (p past) with(ended, follow bool) past {
	if ended && !p.ended {
		return past{readings: 1, ended: true}
	}
	p.readings++
	p.followed = p.followed || follow
	return p
}

func (o *Outputs) pastOf(uid string) past {
	if known, ok := o.past.Get(uid); ok {
		if before, ok := known.(past); ok {
			return before
		}
	}
	return past{}
}

// giveUp notes that a pod has printed more than is read.
func (o *Outputs) giveUp(pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.pastOf(string(pod.UID))
	before.tooMuch = true
	o.past.Add(string(pod.UID), before)
}
