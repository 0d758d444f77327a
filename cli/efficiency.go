package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/ledger"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/timelimit"
)

// noDataText describes GPUs without measurements: they may have been busy or not.
func noDataText() phrase.Text { return phrase.Textf("no data") }

// efficiencyColumns show how busy GPUs were, and for how much of the time that is known. Plain numbers are for programs; an unknown value is empty.
func efficiencyColumns[T any](of func(T) *ledger.Efficiency, plain bool) []column[T] {
	show := boundedPercent
	if plain {
		show = func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
	}
	return []column[T]{
		{header: "UTIL", text: func(row T) phrase.Text {
			e := of(row)
			switch {
			case e == nil || e.Utilization == nil && plain:
				return nil
			case e.Utilization == nil:
				return noDataText()
			}
			return phrase.Quote(show(*e.Utilization))
		}},
		{header: "MEASURED", value: func(row T) string {
			if e := of(row); e != nil {
				return show(e.Measured)
			}
			return ""
		}},
	}
}

// boundedPercent formats a percentage. It shows 0% and 100% only if the value is exact.
func boundedPercent(v float64) string {
	switch {
	case v > 0 && v < 1:
		return "<1%"
	case v > 99 && v < 100:
		return ">99%"
	}
	return fmt.Sprintf("%.0f%%", v)
}

// efficiencyText describes how busy the GPUs of a job were, or is empty without measurements.
func efficiencyText(e *ledger.Efficiency) phrase.Text {
	switch {
	case e == nil:
		return nil
	case e.Utilization == nil:
		return phrase.Textf("no data: nothing was measured while it held them")
	}
	return phrase.Textf("%s on average, measured for %s of the time", boundedPercent(*e.Utilization), boundedPercent(e.Measured))
}

// jobEfficiency asks the ledger how busy the GPUs of a finished job were that still exists; nil if there is no ledger or it does not know the job. A
// ledger that does not answer causes a warning only.
func (o *describeJobOptions) jobEfficiency(ctx context.Context, job *inventory.JobDetail) *ledger.Efficiency {
	if job.Finished == nil || job.GPUs == 0 {
		return nil
	}
	ctx, stop := timelimit.WithLimit(ctx, ledgerTimeout, phrase.Textf("the ledger has not answered"))
	defer stop()
	known, err := o.ledger.findAddress(ctx, o.factory)
	if err == nil && !known {
		return nil
	}
	var client *ledgerclient.Client
	if err == nil {
		client, err = o.ledger.newClient(ctx, o.factory)
	}
	var found ledger.JobDetail
	if err == nil {
		found, err = client.Job(ctx, job.Namespace, string(job.Object.UID))
	}
	var said *ledgerclient.Error
	if errors.As(err, &said) && said.Status == http.StatusNotFound {
		return nil // the ledger did not run yet when the job did
	}
	if err != nil {
		o.factory.IO.printErr("warning: the ledger is left out: %v", err)
		return nil
	}
	return found.Efficiency
}
