package recorder

import corev1 "k8s.io/api/core/v1"

const (
	// rememberedPods is how many pods have a read history, and mostReadings how often an unchanged pod is read: each change of a terminating pod is
	// reported, and users can change theirs as often as they like.
	rememberedPods = 4 * maxWaiting
	mostReadings   = 2
)

// readHistory is the read history of a pod.
type readHistory struct {
	// readings counts the reads, since the pod's end if it has ended.
	readings        int
	ended, followed bool
	// tooMuch says that its output exceeds what is read.
	tooMuch bool
}

// shouldRead reports whether there may be new output, or the last read may have failed.
func (p readHistory) shouldRead(ended, follow bool) bool {
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

// withReading returns the history after one more read.
func (p readHistory) withReading(ended, follow bool) readHistory {
	if ended && !p.ended {
		return readHistory{readings: 1, ended: true}
	}
	p.readings++
	p.followed = p.followed || follow
	return p
}

func (o *Outputs) historyOf(uid string) readHistory {
	if known, ok := o.history.Get(uid); ok {
		if before, ok := known.(readHistory); ok {
			return before
		}
	}
	return readHistory{}
}

// giveUp records that a pod's output exceeds what is read.
func (o *Outputs) giveUp(pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.historyOf(string(pod.UID))
	before.tooMuch = true
	o.history.Add(string(pod.UID), before)
}
