package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/ledger"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// isOutputGone reports whether there is no output because the job, or all its pods, are gone. The ledger may have kept some.
func (o *logsOptions) isOutputGone(err error) bool {
	var none *joblogs.NoOutputError
	switch {
	case o.stream.Previous || o.exitCode:
		return false
	case isA[*inventory.NotFoundError](err):
		return true
	}
	// The ledger keeps no ranks, so it cannot help with one rank of a running job.
	return errors.As(err, &none) && (none.Rank == nil || none.Job.Finished != nil || none.Job.Status == inventory.StatusTerminating)
}

// printPastOutput prints the kept output of a deleted job, and where else its output may be if the job is past. It returns false if that is
// incomplete.
func (o *logsOptions) printPastOutput(ctx context.Context, past bool) bool {
	shown, trouble := o.printKept(ctx)
	if trouble != nil {
		o.factory.IO.printErr("warning: the ledger is left out: %v", trouble)
	}
	if past {
		o.printLogStoreNote(ctx)
	}
	return shown && trouble == nil
}

// printKept prints the output that the ledger has kept of the latest job of the name. It returns false if there is none or no known ledger.
func (o *logsOptions) printKept(ctx context.Context) (bool, error) {
	if known, err := o.ledger.findAddress(ctx, o.factory); err != nil || !known {
		return false, err
	}
	client, err := o.ledger.newClient(ctx, o.factory)
	if err != nil {
		return false, err
	}
	kept, more, err := o.waitForKeptOutput(ctx, client)
	if err != nil || len(kept) == 0 {
		return false, err
	}
	// Several jobs may have had the same name.
	last := slices.DeleteFunc(kept, func(out ledger.Output) bool { return out.JobUID != kept[0].JobUID })
	lines, cut, err := o.keptLines(last)
	if err != nil {
		return false, err
	}
	broken := incompleteContainers(last)
	o.printKeptNotes(last, cut, more, broken)
	printer := &logPrinter{io: o.factory.IO, timestamps: o.timestamps, noPrefix: o.noPrefix, several: len(last) > 1}
	if o.output != nil && o.output.format == outputJSON {
		printer.json = &jsonLines{out: o.factory.IO.Out, list: !o.stream.Follow, kept: &keptOutputInfo{Truncated: cut || more, Incomplete: broken}}
	}
	for _, line := range lines {
		if err := printer.printLine(line); err != nil {
			return true, err
		}
	}
	return true, printer.endOutput(nil)
}

// If a job has just ended, the ledger may not have read its output yet.
const (
	keptPollInterval = time.Second
	keptPollCount    = 15
	// recentEnd is how long after a job's end the ledger may still be behind.
	recentEnd = 2 * time.Minute
)

// waitForKeptOutput reads the output that the ledger has kept of a job. If the job ended recently, or the ledger still considers it running, it
// waits: the output arrives after the end.
func (o *logsOptions) waitForKeptOutput(ctx context.Context, client *ledgerclient.Client) ([]ledger.Output, bool, error) {
	read := func() ([]ledger.Output, bool, error) {
		return client.Output(ctx, o.stream.Namespace, o.stream.Job, o.stream.Pod, o.stream.Container)
	}
	kept, more, err := read()
	if err != nil || len(kept) > 0 {
		return kept, more, err
	}
	if ended, err := o.endedJustNow(ctx, client); err != nil || !ended {
		return nil, false, err
	}
	defer startProgress(o.factory.IO, phrase.Textf("Waiting for the ledger to have the output of job %s", o.stream.Job))()
	for range keptPollCount {
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(keptPollInterval):
		}
		if kept, more, err = read(); err != nil || len(kept) > 0 {
			return kept, more, err
		}
	}
	o.factory.IO.printErr("note: the ledger knows job %s, and has none of its output", o.stream.Job)
	return nil, false, nil
}

// endedJustNow reports whether the ledger saw a job of the name end recently, or still considers it running.
func (o *logsOptions) endedJustNow(ctx context.Context, client *ledgerclient.Client) (bool, error) {
	query := ledgerclient.Query{
		By: []ledger.Key{ledger.ByJob}, Namespaces: []string{o.stream.Namespace}, Name: o.stream.Job, Since: o.factory.Now().Add(-recentEnd), Limit: 1,
	}
	jobs, _, err := client.Jobs(ctx, query)
	if err != nil || len(jobs) > 0 {
		return len(jobs) > 0, err
	}
	query.Name = ""
	usage, err := client.Usage(ctx, query)
	return slices.ContainsFunc(usage.Items, func(sum ledger.Sum) bool {
		return sum.Keys[ledger.ByJob] == o.stream.Job && sum.Running > 0
	}), err
}

// keptLines returns the lines that the options select, ordered by time.
func (o *logsOptions) keptLines(kept []ledger.Output) (lines []joblogs.Line, cut bool, err error) {
	for _, out := range kept {
		cut = cut || out.Truncated
		var own []joblogs.Line
		err := joblogs.Parse(joblogs.Source{Pod: out.Pod, Container: out.Container}, strings.NewReader(out.Text), func(line joblogs.Line) error {
			if line.Time.IsZero() && len(own) > 0 {
				line.Time = own[len(own)-1].Time // the rest of a line that was cut
			}
			if !line.Time.Before(o.stream.Since) {
				own = append(own, line)
			}
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		if o.stream.Tail != nil {
			own = own[max(0, len(own)-int(min(*o.stream.Tail, int64(len(own))))):]
		}
		lines = append(lines, own...)
	}
	lines = slices.DeleteFunc(lines, func(line joblogs.Line) bool {
		return o.stream.Match != nil && !o.stream.Match.MatchString(line.Text)
	})
	slices.SortStableFunc(lines, func(a, b joblogs.Line) int { return a.Time.Compare(b.Time) })
	return lines, cut, nil
}

// keptOutputInfo describes kept output in JSON. JSON keys are a contract.
type keptOutputInfo struct {
	// Truncated says that earlier output is missing, or that the ledger has more.
	Truncated bool `json:"truncated"`
	// Incomplete lists the containers, as POD/CONTAINER, whose output could not be read to the end: there may have been more.
	Incomplete []string `json:"incomplete"`
}

// incompleteContainers returns the containers whose output is not kept to its end.
func incompleteContainers(kept []ledger.Output) []string {
	out := []string{}
	for i := range kept {
		if kept[i].Incomplete {
			out = append(out, kept[i].Pod+"/"+kept[i].Container)
		}
	}
	slices.Sort(out)
	return out
}

// maxNamedContainers is the maximum number of containers that a note names.
const maxNamedContainers = 5

func (o *logsOptions) printKeptNotes(kept []ledger.Output, cut, more bool, broken []string) {
	text := phrase.Textf("note: the pods of job %s are gone; this is what the ledger has kept of their output", o.stream.Job)
	if cut {
		text = text.Addf(",\n  the end of it")
	}
	if more {
		text = text.Addf(";\n  there is more: name single pods by --pod")
	}
	o.factory.IO.printErr("%s", text)
	if len(broken) > 0 {
		o.factory.IO.printErr("warning: reading broke off before the end, and there may have been more, of\n  %s", listUpTo(quoteWords(broken), maxNamedContainers))
	}
	if o.stream.Rank != nil {
		o.factory.IO.printErr("note: ranks are not kept: it is of all %d pods", len(kept))
	}
}

// isPast reports whether there is no output because the job has ended or is gone, if it ever existed.
func (o *logsOptions) isPast(err error) bool {
	var none *joblogs.NoOutputError
	if errors.As(err, &none) {
		return none.Job.Finished != nil || none.Job.Status == inventory.StatusTerminating
	}
	return isA[*inventory.NotFoundError](err)
}

// printLogStoreNote says where the cluster stores the output of jobs, if it publishes that.
func (o *logsOptions) printLogStoreNote(ctx context.Context) {
	said, err := o.ledger.readAddressConfig(ctx, o.factory)
	if err != nil {
		o.factory.IO.printErr("warning: the log store of the cluster is left out: %v", err)
		return
	}
	if said[ledger.KeyLogStore] == "" {
		return
	}
	address, err := ledgerclient.LogStoreURL(said[ledger.KeyLogStore], o.stream.Namespace, o.stream.Job)
	if err != nil {
		o.factory.IO.printErr("warning: ConfigMap %s/%s: %v", ledger.AddressNamespace, ledger.AddressConfigMap, err)
		return
	}
	o.factory.IO.printErr("note: what a job of this name has printed is in the cluster's log store:\n  %s", address)
}
