package recorder

import corev1 "k8s.io/api/core/v1"

const (
	// remembered is how many pods have a read history, and mostReadings how often an unchanged pod is read: each change of a terminating pod is
	// reported, and users can change theirs as often as they like.
	remembered   = 4 * waiting
	mostReadings = 2
)

// past is the read history of a pod.
type past struct {
	// readings counts the reads, since the pod's end if it has ended.
	readings        int
	ended, followed bool
	// tooMuch says that its output exceeds what is read.
	tooMuch bool
}

// again reports whether there may be new output, or the last read may have failed.
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

// with returns the history after one more read.
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

// giveUp records that a pod's output exceeds what is read.
func (o *Outputs) giveUp(pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.pastOf(string(pod.UID))
	before.tooMuch = true
	o.past.Add(string(pod.UID), before)
}
