package ledger

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/survival"
)

// Run is how long a job held GPUs without a break: from the binding of its first pod until its last pod had ended. JSON keys are a contract.
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

// RunsToLearn is the number of runs that are worth reading.
const RunsToLearn = 5000

// longest is the maximum run time in seconds; more would overflow.
const longest = 100 * 365 * 24 * 60 * 60

// Learn returns the statistics of runs for predicting others. The runs are in the order of an answer.
func Learn(runs []Run) *survival.History {
	return learnBy(runs, func(run *Run) string { return run.User })
}

// LearnOfNamespaces is Learn without distinguishing the users of a namespace.
func LearnOfNamespaces(runs []Run) *survival.History {
	return learnBy(runs, func(*Run) string { return "" })
}

func learnBy(runs []Run, userOf func(*Run) string) *survival.History {
	out := &survival.History{}
	for _, run := range slices.Backward(runs) { // the newest last
		ran := time.Duration(min(max(run.Seconds, 0), longest)) * time.Second
		out.AddRun(survival.Job{Namespace: run.Namespace, User: userOf(&run), Pool: run.Pool, GPUs: run.GPUs}, ran)
	}
	return out
}

// mostOfOwner bounds the runs of one user in a namespace, the newest: otherwise a user with very many short runs would displace those of all others.
const mostOfOwner = 500

// RunJoiner joins holdings into runs: simultaneous holdings of a job's pods are one run, and those after a break, such as after a failure, are another.
// Pods of an array follow each other within seconds.
type RunJoiner struct {
	// held is the earliest known run of each job. One that is not reported has no end and is not among runs: it is still running, or its owner has
	// enough runs.
	held   map[string]*joinedRun
	runs   []*joinedRun
	owners map[owner]int
	// skipped says that owners had more runs than are reported.
	skipped bool
}

// owner is a user of a namespace.
type owner struct{ namespace, user string }

type joinedRun struct {
	run Run
	// job is the name of its job, "" for a pod that belongs to none.
	job      string
	from, to time.Time
	held     []span
}

// span is the holding of one pod.
type span struct {
	from, to time.Time
	milli    int64
}

// NewRunJoiner returns an empty Joining. A run that has not ended does not count.
func NewRunJoiner() *RunJoiner {
	return &RunJoiner{held: map[string]*joinedRun{}, owners: map[owner]int{}}
}

// AddHeld adds a current holding. All calls must precede the first Add.
func (j *RunJoiner) AddHeld(h *Holding) {
	of := jobOf(h)
	if known := j.held[of]; known == nil || h.From.Before(known.from) {
		j.held[of] = &joinedRun{from: h.From}
	}
}

// Add adds an ended holding, the last to end first. One whose end was not observed is ignored.
func (j *RunJoiner) Add(h *Holding) {
	if !h.Until.IsZero() {
		return
	}
	of := jobOf(h)
	known := j.held[of]
	if known == nil || runDeadline(h).Before(known.from) {
		known = j.beginRun(h)
		j.held[of] = known
	}
	if h.From.Before(known.from) {
		known.from = h.From
	}
	if !known.to.IsZero() { // otherwise it is not reported
		known.held = append(known.held, span{h.From, h.To, h.Milli})
	}
}

// turnGap is how long after a pod has succeeded the job's next pod is bound at the latest, if they run one after the other.
const turnGap = 2 * time.Minute

// runDeadline returns until when other pods of a job belong to the same run. A job continues after a pod that succeeded; after a failed pod it starts a
// new run.
func runDeadline(h *Holding) time.Time {
	if h.JobUID != "" && h.Outcome == string(corev1.PodSucceeded) {
		return h.To.Add(turnGap)
	}
	return h.To
}

// beginRun starts a run with its last pod to end.
func (j *RunJoiner) beginRun(h *Holding) *joinedRun {
	whose := owner{h.Namespace, h.User}
	if j.owners[whose] == mostOfOwner {
		j.skipped = true
		return &joinedRun{from: h.From}
	}
	j.owners[whose]++
	known := &joinedRun{run: Run{Namespace: h.Namespace, User: h.User, Pool: h.Pool}, from: h.From, to: h.To}
	if h.JobUID != "" {
		known.job = h.Job
	}
	j.runs = append(j.runs, known)
	return known
}

// HasSkipped reports whether runs were omitted because their owner has enough.
func (j *RunJoiner) HasSkipped() bool { return j.skipped }

// DropPartial removes runs that are incomplete because not all holdings of their job were added. goesOn gets the job of each run, and the time since when an
// ended holding of the job would belong to the run.
func (j *RunJoiner) DropPartial(goesOn func(namespace, job string, since time.Time) bool) {
	j.runs = slices.DeleteFunc(j.runs, func(found *joinedRun) bool {
		return found.job != "" && goesOn(found.run.Namespace, found.job, found.from.Add(-turnGap))
	})
}

// Len returns the number of runs.
func (j *RunJoiner) Len() int { return len(j.runs) }

// Runs returns the ended runs, the last to end first.
func (j *RunJoiner) Runs() []Run {
	out := make([]Run, len(j.runs))
	for i, found := range j.runs {
		found.run.GPUs = (found.peakMilli() + whole - 1) / whole
		found.run.Seconds = int64(found.to.Sub(found.from) / time.Second)
		out[i] = found.run
	}
	return out
}

// peakMilli returns what was held when the last pod had been bound, in thousandths of a GPU: by all members of a gang, or by the concurrent tasks of
// an array.
func (j *joinedRun) peakMilli() (milli int64) {
	var last time.Time
	for i := range j.held {
		last = laterTime(last, j.held[i].from)
	}
	for i := range j.held {
		if one := &j.held[i]; !one.from.After(last) && (one.to.After(last) || one.from.Equal(last)) {
			milli += one.milli
		}
	}
	return milli
}

// jobOf returns a key of a holding's job; a pod without a job is its own.
func jobOf(h *Holding) string {
	if h.JobUID != "" {
		return "job/" + h.JobUID
	}
	return "pod/" + h.UID
}
