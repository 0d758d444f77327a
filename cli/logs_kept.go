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

// isGone reports whether there is no output because the job, or all its pods, are gone: the ledger may have kept some.
func (o *logsOptions) isGone(err error) bool {
	var none *joblogs.NoOutputError
	switch {
	case o.stream.Previous || o.exitCode:
		return false
	case isA[*inventory.NotFoundError](err):
		return true
	}
	// The ledger keeps no ranks. Of one of a job that goes on it has nothing to tell, and that the job runs is of the others.
	return errors.As(err, &none) && (none.Rank == nil || none.Job.Finished != nil || none.Job.Status == inventory.StatusTerminating)
}

// showPast prints what is kept of a job that is gone, and where else its output may be if it is past; false where that is not all
// of it.
func (o *logsOptions) showPast(ctx context.Context, past bool) bool {
	shown, trouble := o.printKept(ctx)
	if trouble != nil {
		o.factory.IO.tell("warning: the ledger is left out: %v", trouble)
	}
	if past {
		o.tellLogStore(ctx)
	}
	return shown && trouble == nil
}

// printKept prints what the ledger has kept of the output of the last job of the name; false where it has nothing, or is not
// known.
func (o *logsOptions) printKept(ctx context.Context) (bool, error) {
	if known, err := o.ledger.find(ctx, o.factory); err != nil || !known {
		return false, err
	}
	client, err := o.ledger.connect(ctx, o.factory)
	if err != nil {
		return false, err
	}
	kept, more, err := o.awaitKept(ctx, client)
	if err != nil || len(kept) == 0 {
		return false, err
	}
	// A name may have been that of several jobs.
	last := slices.DeleteFunc(kept, func(out ledger.Output) bool { return out.JobUID != kept[0].JobUID })
	lines, cut, err := o.keptLines(last)
	if err != nil {
		return false, err
	}
	broken := brokenOff(last)
	o.tellKept(last, cut, more, broken)
	printer := &logPrinter{io: o.factory.IO, timestamps: o.timestamps, noPrefix: o.noPrefix, several: len(last) > 1}
	if o.output != nil && o.output.format == outputJSON {
		printer.json = &jsonLines{out: o.factory.IO.Out, list: !o.stream.Follow, kept: &keptAbout{Truncated: cut || more, Incomplete: broken}}
	}
	for _, line := range lines {
		if err := printer.print(line); err != nil {
			return true, err
		}
	}
	return true, printer.end(nil)
}

// Of a job that has ended a moment ago, the ledger may not have read the output yet.
const (
	catchUpPoll  = time.Second
	catchUpPolls = 15
	// justNow is how long ago a job may have ended for the ledger to be behind.
	justNow = 2 * time.Minute
)

// awaitKept reads what the ledger has kept of the output of a job. One that it has seen end a moment ago, or that it
// still takes to run, is waited for: the output comes after the end.
func (o *logsOptions) awaitKept(ctx context.Context, client *ledgerclient.Client) ([]ledger.Output, bool, error) {
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
	defer startProgress(o.factory.IO, phrase.Of("Waiting for the ledger to have the output of job %s", o.stream.Job))()
	for range catchUpPolls {
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(catchUpPoll):
		}
		if kept, more, err = read(); err != nil || len(kept) > 0 {
			return kept, more, err
		}
	}
	o.factory.IO.tell("note: the ledger knows job %s, and has none of its output", o.stream.Job)
	return nil, false, nil
}

// endedJustNow reports whether the ledger has seen a job of the name end a moment ago, or believes that it runs.
func (o *logsOptions) endedJustNow(ctx context.Context, client *ledgerclient.Client) (bool, error) {
	query := ledgerclient.Query{
		By: []ledger.Key{ledger.ByJob}, Namespaces: []string{o.stream.Namespace}, Name: o.stream.Job, Since: o.factory.Now().Add(-justNow), Limit: 1,
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

// keptLines are the lines that the options choose, in the order of time.
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

// keptAbout is what JSON says of output that the ledger has kept. JSON keys are a contract.
type keptAbout struct {
	// Truncated says that there was more before, or is more in the ledger.
	Truncated bool `json:"truncated"`
	// Incomplete are the containers, each as POD/CONTAINER, of which reading broke off: there may have been more after.
	Incomplete []string `json:"incomplete"`
}

// brokenOff are the containers whose output is not kept to its end.
func brokenOff(kept []ledger.Output) []string {
	out := []string{}
	for i := range kept {
		if kept[i].Incomplete {
			out = append(out, kept[i].Pod+"/"+kept[i].Container)
		}
	}
	slices.Sort(out)
	return out
}

// mostNamed is how many containers a note names.
const mostNamed = 5

func (o *logsOptions) tellKept(kept []ledger.Output, cut, more bool, broken []string) {
	text := phrase.Of("note: the pods of job %s are gone; this is what the ledger has kept of their output", o.stream.Job)
	if cut {
		text = text.And(",\n  the end of it")
	}
	if more {
		text = text.And(";\n  there is more: name single pods by --pod")
	}
	o.factory.IO.tell("%s", text)
	if len(broken) > 0 {
		o.factory.IO.tell("warning: reading broke off before the end, and there may have been more, of\n  %s", someOf(quotes(broken), mostNamed))
	}
	if o.stream.Rank != nil {
		o.factory.IO.tell("note: ranks are not kept: it is of all %d pods", len(kept))
	}
}

// isPast reports whether there is no output because the job has ended or is gone, if there was one.
func (o *logsOptions) isPast(err error) bool {
	var none *joblogs.NoOutputError
	if errors.As(err, &none) {
		return none.Job.Finished != nil || none.Job.Status == inventory.StatusTerminating
	}
	return isA[*inventory.NotFoundError](err)
}

// tellLogStore says where the cluster has what its jobs have printed, if it says so.
func (o *logsOptions) tellLogStore(ctx context.Context) {
	said, err := o.ledger.ask(ctx, o.factory)
	if err != nil {
		o.factory.IO.tell("warning: the log store of the cluster is left out: %v", err)
		return
	}
	if said[ledger.KeyLogStore] == "" {
		return
	}
	address, err := ledgerclient.LogStoreURL(said[ledger.KeyLogStore], o.stream.Namespace, o.stream.Job)
	if err != nil {
		o.factory.IO.tell("warning: ConfigMap %s/%s: %v", ledger.AddressNamespace, ledger.AddressConfigMap, err)
		return
	}
	o.factory.IO.tell("note: what a job of this name has printed is in the cluster's log store:\n  %s", address)
}
