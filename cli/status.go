package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// jobStatus reports on stderr how a job progresses: why it waits, then where it runs.
type jobStatus struct {
	factory *Factory
	client  kubernetes.Interface
	line    *statusLine
	// lastState is the job's state when it was last diagnosed; lastReported identifies the last printed sentence.
	lastState, lastReported string
}

func newJobStatus(f *Factory, client kubernetes.Interface) *jobStatus {
	return &jobStatus{factory: f, client: client, line: newStatusLine(f.IO)}
}

// reportJob reports the state of a job if it has changed. In a pipe, changed numbers alone do not count: in a busy cluster they change every
// second.
func (n *jobStatus) reportJob(ctx context.Context, job inventory.Job) {
	seen := fmt.Sprint(job.Status, job.Reason, job.Ready)
	if n.factory.IO.ErrIsTerminal {
		seen += job.Message
	}
	if job.Array != nil {
		seen += job.Array.ProgressText().String()
	}
	if seen == n.lastState {
		return
	}
	n.lastState = seen
	text, about := n.statusSentence(ctx, job)
	if n.factory.IO.ErrIsTerminal || about != n.lastReported {
		n.line.setText(text)
	}
	n.lastReported = about
}

// lineHeartbeat monitors the watch behind the status line.
func (n *jobStatus) lineHeartbeat() *heartbeat {
	before := ""
	lost := func(text phrase.Text, _ time.Duration) {
		before = n.line.setText(text.Localize(n.factory.outputLanguage()))
	}
	back := func() {
		n.line.setText(cmp.Or(before, phrase.Textf("The cluster answers again").Localize(n.factory.outputLanguage())))
	}
	return newHeartbeat(n.client, lost, back)
}

// staleReporter shows on the line when the watch becomes stale, and restores the previous text when it recovers.
func (n *jobStatus) staleReporter() func(error) {
	before := ""
	lost := func(text phrase.Text) { before = n.line.setText(text.Localize(n.factory.outputLanguage())) }
	back := func(text phrase.Text) { n.line.setText(cmp.Or(before, text.Localize(n.factory.outputLanguage()))) }
	return n.factory.newStaleReporter(lost, back)
}

func (n *jobStatus) endLine() { n.line.endLine() }

// statusSentence describes the state of a job, and identifies it without its numbers.
func (n *jobStatus) statusSentence(ctx context.Context, job inventory.Job) (text, about string) {
	switch job.Status {
	case inventory.StatusRunning:
		text, about = runningText(job).Localize(n.factory.outputLanguage()), string(job.Status)
		if job.Array == nil { // an array has too many tasks for a line each
			about = text
		}
		return text, about
	case inventory.StatusSucceeded:
		return phrase.Textf("%s has succeeded", job.Name).Localize(n.factory.outputLanguage()), string(job.Status)
	case inventory.StatusTerminating:
		return phrase.Textf("%s is being deleted", job.Name).Localize(n.factory.outputLanguage()), string(job.Status)
	}
	report, err := diagnoseJob(ctx, n.client, job, n.factory)
	if err != nil { // fall back to the reason of the pods
		text := phrase.Textf("%s is %s", job.Name, job.Status).Addf(": %s", localizeReason(job.Trouble, n.factory.outputLanguage()))
		return text.Localize(n.factory.outputLanguage()), string(job.Status) + job.Reason
	}
	language := n.factory.outputLanguage()
	return phrase.Textf("%s is %s", report.Job, report.Status).Localize(language) + headlineText(report, language), string(report.Status) + string(report.Cause)
}

// runningText says where a job runs, and how far an array has progressed: between two tasks it may have no pod.
func runningText(job inventory.Job) phrase.Text {
	text := phrase.Textf("%s runs", job.Name)
	if len(job.Nodes) > 0 {
		text = text.Addf(" on %s", strings.Join(job.Nodes, ", "))
	}
	if job.Array != nil {
		return text.Addf(", %s", job.Array.ProgressText())
	}
	return text.Addf(", %d of %d pods ready", job.Ready, job.Desired)
}

// diagnoseJob explains the state of one job from what the cluster shows.
func diagnoseJob(ctx context.Context, client kubernetes.Interface, job inventory.Job, f *Factory) (diagnosis.Report, error) {
	facts, err := diagnosis.Read(ctx, client, job.Namespace, job.Name, f.Now())
	if err != nil {
		return diagnosis.Report{}, err
	}
	for i := range facts {
		if facts[i].Job.Kind == job.Kind {
			return diagnosis.Diagnose(facts[i]), nil
		}
	}
	return diagnosis.Report{}, &inventory.NotFoundError{Namespace: job.Namespace, Name: job.Name}
}
