package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

type getSpotPoolsOptions struct{ listing[inventory.SpotPool] }

func newGetSpotPoolsCmd(f *Factory) *cobra.Command {
	o := &getSpotPoolsOptions{}
	cmd := &cobra.Command{
		Use:     "spotpools [NAME]...",
		Aliases: []string{"spotpool"},
		Short:   "List SpotPools, which keep machines of a cloud, and how many they have",
		Long: "List SpotPools, which keep machines of a cloud as nodes of a pool. RUNNING machines are ready nodes, STARTING\n" +
			"ones are being bought or boot, INTERRUPTED ones are taken back by their cloud. MAX/HOUR is what all\n" +
			"that may be there cost in an hour at the maxPrice of today, in the money of the account; it is not known without\n" +
			"a maxPrice, nor for OnDemand machines.",
		Example: "  gpuctl get spotpools\n  gpuctl get spotpools -o wide",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			pools, err := f.spotPools(cmd.Context())
			if err != nil {
				return err
			}
			return o.printNamed(pools)
		},
		ValidArgsFunction: completeSpotPools(f),
	}
	o.listing = listing[inventory.SpotPool]{
		io: f.IO, now: f.Now, noun: "SpotPool",
		columns: spotPoolColumns,
		name:    func(p inventory.SpotPool) string { return p.Name },
		id:      func(p inventory.SpotPool) string { return p.Name },
		print:   func(p inventory.SpotPool) string { return "spotpool/" + p.Name },
	}
	o.addListFlags(cmd)
	return cmd
}

func (f *Factory) spotPools(ctx context.Context) ([]inventory.SpotPool, error) {
	reader, err := f.newReader()
	if err != nil {
		return nil, err
	}
	return reader.SpotPools(ctx)
}

func completeSpotPools(f *Factory) completer {
	return completeNames(f, func(ctx context.Context, reader *inventory.Reader) ([]string, error) {
		pools, err := reader.SpotPools(ctx)
		return collectNames(pools, func(p inventory.SpotPool) string { return p.Name }), err
	})
}

func spotPoolColumns(now time.Time) []column[inventory.SpotPool] {
	type pool = inventory.SpotPool
	return []column[pool]{
		{header: "NAME", value: func(p pool) string { return p.Name }},
		{header: "POOL", value: func(p pool) string { return p.Pool }},
		{header: "MIN-MAX", value: func(p pool) string { return fmt.Sprintf("%d-%d", p.Minimum, p.Maximum) }},
		{header: "WANTED", value: func(p pool) string { return formatNumber(int64(p.Wanted)) }},
		{header: "RUNNING", value: func(p pool) string { return formatNumber(int64(p.Running)) }},
		{header: "STARTING", value: func(p pool) string { return formatNumber(int64(p.Starting)) }},
		{header: "INTERRUPTED", value: func(p pool) string { return formatNumber(int64(p.Interrupted)) }},
		{header: "LEAVING", wide: true, value: func(p pool) string { return formatNumber(int64(p.Leaving)) }},
		{header: "MAX/HOUR", value: func(p pool) string { return p.MaxPerHour }},
		{header: "PROVIDER", wide: true, value: func(p pool) string { return p.Provider }},
		{header: "GPU-TYPE", wide: true, value: func(p pool) string { return p.GPUType }},
		{header: "AGE", value: func(p pool) string { return formatAge(now, p.Created) }},
		{header: "TROUBLE", text: func(p pool) phrase.Text { return phrase.FromEnglish(p.Trouble) }},
	}
}

func newDescribeSpotPoolCmd(f *Factory) *cobra.Command {
	var o *output
	cmd := &cobra.Command{
		Use:     "spotpool NAME",
		Aliases: []string{"spotpools"},
		Short:   "Show one SpotPool: its machines, and what keeps others from coming",
		Example: "  gpuctl describe spotpool spot-train",
		Args:    requireOneArg(phrase.Textf("the name of one SpotPool")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDescribeSpotPool(cmd.Context(), f, o, args[0])
		},
		ValidArgsFunction: completeSpotPools(f),
	}
	o = describeOutput(cmd)
	return cmd
}

func runDescribeSpotPool(ctx context.Context, f *Factory, o *output, name string) error {
	pools, err := f.spotPools(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pools, func(p inventory.SpotPool) bool { return p.Name == name })
	if i < 0 {
		return &notFoundError{
			what: phrase.Textf("SpotPool %q", name), near: suggestSimilarBy(name, pools, func(p *inventory.SpotPool) string { return p.Name }),
		}
	}
	if o.format != "" {
		return writeEncoded(f.IO.Out, o.format, pools[i])
	}
	return describeSpotPool(newDescription(f.IO), &pools[i], f.Now())
}

func describeSpotPool(d *description, p *inventory.SpotPool, now time.Time) error {
	d.writeField("Name", p.Name)
	d.writeField("Pool", p.Pool)
	d.writeField("GPU type", p.GPUType)
	d.writeField("Cloud", strings.TrimSpace(p.Provider+" "+p.Region)+", "+p.ChargeType)
	d.writeFieldf("Size", "%d wanted, of %d to %d", p.Wanted, p.Minimum, p.Maximum)
	d.writeFieldf("Machines", "%d running, %d starting, %d interrupted, %d leaving", p.Running, p.Starting, p.Interrupted, p.Leaving)
	if p.MaxPerHour != "" {
		d.writeFieldf("Costs", "at most %s an hour, %s each, in the money of the account", p.MaxPerHour, p.MaxPrice)
	}
	d.writeField("Age", formatAge(now, p.Created))
	switch {
	case p.Deleted:
		d.writeWrappedField("Note", phrase.Textf("it is deleted, and goes when its machines have ended").Localize(d.language))
	case p.Stale:
		d.writeWrappedField("Note", phrase.Textf("what follows from it as it is now has not been written yet: is gpu-controller running?").Localize(d.language))
	}
	for _, condition := range p.Conditions {
		text := phrase.Textf("%s for %s: %s", condition.Status, formatAge(now, condition.Since), phrase.FromEnglish(condition.Message))
		d.writeWrappedField(spotConditionLabel(condition.Type), text.Localize(d.language))
	}
	var offers []string
	for _, offer := range p.Offers {
		offers = append(offers, phrase.Textf("%s in %s: %s", offer.InstanceType, offer.Zone, offer.Reason).Localize(d.language))
	}
	d.writeLines("No capacity", offers)
	return describeRows(d, "Machines", p.Machines, machineColumns(now))
}

// spotConditionLabel returns a condition type that is short enough for a label.
func spotConditionLabel(kind string) string {
	short := map[string]string{"CloudAnswers": "Cloud", "CapacityAvailable": "Capacity", "MachinesJoin": "Joining"}
	if label := short[kind]; label != "" {
		return label
	}
	return kind
}

func machineColumns(now time.Time) []column[inventory.Machine] {
	type machine = inventory.Machine
	return []column[machine]{
		{header: "NAME", value: func(m machine) string { return m.Name }},
		{header: "STATE", value: machineState},
		{header: "TYPE", value: func(m machine) string { return m.InstanceType }},
		{header: "ZONE", value: func(m machine) string { return m.Zone }},
		{header: "INSTANCE", value: func(m machine) string { return m.Instance }},
		{header: "IP", value: func(m machine) string { return m.PrivateIP }},
		{header: "PUBLIC-IP", value: func(m machine) string { return m.PublicIP }},
		{header: "AGE", value: func(m machine) string { return formatAge(now, m.Created) }},
	}
}

// machineState returns the state of a machine, and why it is to be removed.
func machineState(m inventory.Machine) string {
	if m.Leaving != "" && m.Leaving != m.State {
		return m.State + " (" + m.Leaving + ")"
	}
	return m.State
}
