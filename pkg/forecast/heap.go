package forecast

import "time"

// ending is when a job ends.
type ending struct {
	at  time.Duration
	job int32
}

// less also orders simultaneous ends, so that nothing depends on the order of insertion.
func (e ending) less(other ending) bool {
	return e.at < other.at || e.at == other.at && e.job < other.job
}

// heap has the job that ends first at its root. It is container/heap without interfaces, which would take most of the time.
type heap []ending

func (h heap) order() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap) push(e ending) {
	*h = append(*h, e)
	for i := len(*h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !(*h)[i].less((*h)[parent]) {
			return
		}
		(*h)[i], (*h)[parent] = (*h)[parent], (*h)[i]
		i = parent
	}
}

func (h *heap) pop() int32 {
	first := (*h)[0].job
	last := len(*h) - 1
	(*h)[0] = (*h)[last]
	*h = (*h)[:last]
	h.down(0)
	return first
}

func (h heap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].less(h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
