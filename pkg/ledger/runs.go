package ledger

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/survival"
)

// Run is for how long a job held GPUs without a break: from when the first of its pods was bound until the last had ended. JSON keys are
// a contract.
type Run struct {
	Namespace string `json:"namespace"`
	User      string `json:"user,omitempty"`
	Pool      string `json:"pool"`
	GPUs      int64  `json:"gpus"`
	Seconds   int64  `json:"seconds"`
}

// RunList is an answer with runs, the last to end first. JSON keys are a contract.
type RunList struct {
	Items []Run `json:"items"`
	// More says that there were more than an answer holds.
	More bool `json:"more,omitempty"`
}

// RunsToLearn are as many runs as are worth asking for.
const RunsToLearn = 5000

// longest is the longest run that is told apart from others: more than that would overflow, whoever says it.
const longest = 100 * 365 * 24 * 60 * 60

// Learn is what runs tell of those to come. They are in the order of an answer.
func Learn(runs []Run) *survival.History {
	return learn(runs, func(run *Run) string { return run.User })
}

// LearnOfNamespaces is Learn for those who do not tell the users of a namespace apart.
func LearnOfNamespaces(runs []Run) *survival.History {
	return learn(runs, func(*Run) string { return "" })
}

func learn(runs []Run, userOf func(*Run) string) *survival.History {
	out := &survival.History{}
	for _, run := range slices.Backward(runs) { // the newest last
		ran := time.Duration(min(max(run.Seconds, 0), longest)) * time.Second
		out.Learn(survival.Job{Namespace: run.Namespace, User: userOf(&run), Pool: run.Pool, GPUs: run.GPUs}, ran)
	}
	return out
}

// mostOfOwner is how many runs of one user of a namespace are told, the newest: whoever has very many short ones would else take the
// place of those of all others.
const mostOfOwner = 500

// Joining makes runs of holdings: what the pods of a job held at the same time is one run, and those after a break are another, as
// after a failure. Pods of an array take turns, some seconds after each other.
type Joining struct {
	// held is the earliest run of each job that has been found. One that is not told has no end, and is not among runs: it goes on, or
	// there are enough of its owner.
	held   map[string]*joined
	runs   []*joined
	owners map[owner]int
	// skipped says that there were more of an owner than are told.
	skipped bool
}

// owner is a user of a namespace.
type owner struct{ namespace, user string }

type joined struct {
	run Run
	// job is the name of its job, "" for a pod that belongs to none.
	job      string
	from, to time.Time
	held     []span
}

// span is what one pod held.
type span struct {
	from, to time.Time
	milli    int64
}

// NewJoining begins with what is held now. A run that goes on is none.
func NewJoining() *Joining { return &Joining{held: map[string]*joined{}, owners: map[owner]int{}} }

// Hold takes what is held now. All of it comes before the first Add.
func (j *Joining) Hold(h *Holding) {
	of := jobOf(h)
	if known := j.held[of]; known == nil || h.From.Before(known.from) {
		j.held[of] = &joined{from: h.From}
	}
}

// Add takes a holding that has ended, the last to end first. One of which nobody saw the end tells nothing.
func (j *Joining) Add(h *Holding) {
	if !h.Until.IsZero() {
		return
	}
	of := jobOf(h)
	known := j.held[of]
	if known == nil || breaks(h).Before(known.from) {
		known = j.begin(h)
		j.held[of] = known
	}
	if h.From.Before(known.from) {
		known.from = h.From
	}
	if !known.to.IsZero() { // else it is not told
		known.held = append(known.held, span{h.From, h.To, h.Milli})
	}
}

// takeTurns is how long after a pod that has done its part the next of its job is bound at the latest, where they take turns.
const takeTurns = 2 * time.Minute

// breaks is until when others of its job are of the same run. A job goes on after a pod that ended well; one of which a pod failed begins again.
func breaks(h *Holding) time.Time {
	if h.JobUID != "" && h.Outcome == string(corev1.PodSucceeded) {
		return h.To.Add(takeTurns)
	}
	return h.To
}

// begin is a run of which the last pod to end is known.
func (j *Joining) begin(h *Holding) *joined {
	whose := owner{h.Namespace, h.User}
	if j.owners[whose] == mostOfOwner {
		j.skipped = true
		return &joined{from: h.From}
	}
	j.owners[whose]++
	known := &joined{run: Run{Namespace: h.Namespace, User: h.User, Pool: h.Pool}, from: h.From, to: h.To}
	if h.JobUID != "" {
		known.job = h.Job
	}
	j.runs = append(j.runs, known)
	return known
}

// Skipped reports whether there were runs that are left out, as there are enough of their owner.
func (j *Joining) Skipped() bool { return j.skipped }

// Drop takes away the runs of jobs that have held more than was added, which nobody knows how long they were. It is asked for
// each with its job, and since when a holding of the job that ended would be of the run.
func (j *Joining) Drop(goesOn func(namespace, job string, since time.Time) bool) {
	j.runs = slices.DeleteFunc(j.runs, func(found *joined) bool {
		return found.job != "" && goesOn(found.run.Namespace, found.job, found.from.Add(-takeTurns))
	})
}

// Len is how many runs there are.
func (j *Joining) Len() int { return len(j.runs) }

// Runs are those that have ended, the last first.
func (j *Joining) Runs() []Run {
	out := make([]Run, len(j.runs))
	for i, found := range j.runs {
		found.run.GPUs = (found.together() + whole - 1) / whole
		found.run.Seconds = int64(found.to.Sub(found.from) / time.Second)
		out[i] = found.run
	}
	return out
}

// together is what was held when the last of the pods had been bound, in thousandths: by all members of a gang, and by as many
// tasks of an array as may run at once.
func (j *joined) together() (milli int64) {
	var last time.Time
	for i := range j.held {
		last = later(last, j.held[i].from)
	}
	for i := range j.held {
		if one := &j.held[i]; !one.from.After(last) && (one.to.After(last) || one.from.Equal(last)) {
			milli += one.milli
		}
	}
	return milli
}

// jobOf names the job of a holding; a pod that belongs to none is one by itself.
func jobOf(h *Holding) string {
	if h.JobUID != "" {
		return "job/" + h.JobUID
	}
	return "pod/" + h.UID
}
