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

type getReservationsOptions struct {
	listing[inventory.Reservation]
}

func newGetReservationsCmd(f *Factory) *cobra.Command {
	o := &getReservationsOptions{}
	cmd := &cobra.Command{
		Use:     "reservations [NAME]...",
		Aliases: []string{"reservation"},
		Short:   "List reservations: which nodes are kept, when, for whom, and who is in the way",
		Long: "List reservations of nodes and maintenance windows in the order in which they begin, by the clock of this machine's\n" +
			"zone. IN-THE-WAY is how many pods are on their nodes that may not be there meanwhile, and could be: they have no time\n" +
			"limit that ends them before. gpuctl describe reservation names them. Who may not see the pods of all namespaces\n" +
			"gets the number from gpu-controller.",
		Example: "  gpuctl get reservations\n  gpuctl get reservations -o wide",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			reservations, err := f.readReservations(cmd.Context())
			if err != nil {
				return err
			}
			return o.printNamed(reservations)
		},
		ValidArgsFunction: completeReservations(f),
	}
	o.listing = listing[inventory.Reservation]{
		io: f.IO, now: f.Now, noun: "reservation",
		columns: reservationColumns,
		name:    func(r inventory.Reservation) string { return r.Name },
		id:      func(r inventory.Reservation) string { return r.Name },
		print:   func(r inventory.Reservation) string { return "reservation/" + r.Name },
	}
	o.addListFlags(cmd)
	return cmd
}

func (f *Factory) readReservations(ctx context.Context) ([]inventory.Reservation, error) {
	reader, err := f.newReader()
	if err != nil {
		return nil, err
	}
	return reader.Reservations(ctx, f.Now())
}

func completeReservations(f *Factory) completer {
	return completeNames(f, func(ctx context.Context, reader *inventory.Reader) ([]string, error) {
		reservations, err := reader.Reservations(ctx, f.Now())
		return collectNames(reservations, func(r inventory.Reservation) string { return r.Name }), err
	})
}

func reservationColumns(now time.Time) []column[inventory.Reservation] {
	type reservation = inventory.Reservation
	return []column[reservation]{
		{header: "NAME", value: func(r reservation) string { return r.Name }},
		{header: "PHASE", value: func(r reservation) string { return string(r.Phase) }},
		{header: "KEEPS", text: reservedText},
		{header: "FROM", value: func(r reservation) string { return formatMoment(now, r.From) }},
		{header: "TO", value: func(r reservation) string { return formatMoment(now, r.To) }},
		{header: "FOR", worded: true, value: reservedFor},
		{header: "IN-THE-WAY", value: func(r reservation) string {
			if r.InTheWay == nil {
				return "?"
			}
			return fmt.Sprint(*r.InTheWay)
		}},
		{header: "EVICTS", wide: true, worded: true, value: func(r reservation) string { return yesOrNo(r.Evict) }},
		{header: "REASON", wide: true, value: func(r reservation) string { return r.Reason }},
	}
}

// maxListedNodes is the maximum number of nodes in a line; the rest is only counted.
const maxListedNodes = 3

// reservedText returns what a reservation reserves: a pool, or nodes.
func reservedText(r inventory.Reservation) phrase.Text {
	if r.Pool != "" {
		return phrase.Textf("pool %s", r.Pool)
	}
	text := strings.Join(r.Nodes[:min(maxListedNodes, len(r.Nodes))], ",")
	if more := len(r.Nodes) - maxListedNodes; more > 0 {
		text += fmt.Sprintf(",+%d", more)
	}
	return phrase.Quote(text)
}

func reservedFor(r inventory.Reservation) string {
	if len(r.Namespaces) == 0 {
		return markWord("maintenance")
	}
	return strings.Join(r.Namespaces, ",")
}

func yesOrNo(yes bool) string {
	if yes {
		return markWord("yes")
	}
	return markWord("no")
}

// formatMoment formats a time in the time zone of another one.
func formatMoment(here, at time.Time) string {
	return at.In(here.Location()).Format("2006-01-02 15:04 MST")
}

func newDescribeReservationCmd(f *Factory) *cobra.Command {
	var o *output
	cmd := &cobra.Command{
		Use:     "reservation NAME",
		Aliases: []string{"reservations"},
		Short:   "Show one reservation: what it keeps, and which pods are in its way",
		Example: "  gpuctl describe reservation firmware-december",
		Args:    requireOneArg(phrase.Textf("the name of one reservation")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDescribeReservation(cmd.Context(), f, o, args[0])
		},
		ValidArgsFunction: completeReservations(f),
	}
	o = describeOutput(cmd)
	return cmd
}

func runDescribeReservation(ctx context.Context, f *Factory, o *output, name string) error {
	reservations, err := f.readReservations(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(reservations, func(r inventory.Reservation) bool { return r.Name == name })
	if i < 0 {
		return &notFoundError{
			what: phrase.Textf("reservation %q", name), near: suggestSimilarBy(name, reservations, func(r *inventory.Reservation) string { return r.Name }),
		}
	}
	if o.format != "" {
		return writeEncoded(f.IO.Out, o.format, reservations[i])
	}
	return describeReservation(newDescription(f.IO), &reservations[i], f.Now())
}

func describeReservation(d *description, r *inventory.Reservation, now time.Time) error {
	d.writeField("Name", r.Name)
	d.writeField("Phase", string(r.Phase))
	if r.Pool != "" {
		d.writeField("Pool", r.Pool)
	}
	d.writeLines("Nodes", r.Nodes)
	d.writeField("From", formatMoment(now, r.From))
	d.writeField("To", formatMoment(now, r.To))
	d.writeField("For", d.language.Translate(reservedFor(*r)))
	d.writeWrappedField("Reason", r.Reason)
	if r.Evict {
		d.writeWrappedField("Evict", phrase.Textf("gpu-controller evicts from the beginning on who is still there").Localize(d.language))
	}
	if r.InTheWay == nil {
		d.writeWrappedField("In the way", phrase.Textf("not known: you may not see the pods of all namespaces, and gpu-controller has not counted them yet").Localize(d.language))
	} else {
		d.writeFieldf("In the way", "%s", countText(*r.InTheWay, "pod"))
	}
	return describeRows(d, "Pods in the way", r.Pods, inTheWayColumns(now))
}

func inTheWayColumns(now time.Time) []column[inventory.PodInTheWay] {
	type pod = inventory.PodInTheWay
	return []column[pod]{
		{header: "NODE", value: func(p pod) string { return p.Node }},
		{header: "NAMESPACE", value: func(p pod) string { return p.Namespace }},
		{header: "POD", value: func(p pod) string { return p.Name }},
		{header: "JOB", value: func(p pod) string { return p.Job }},
		{header: "GONE-BY", worded: true, value: func(p pod) string {
			if p.Gone == nil {
				return markWord("no limit")
			}
			return formatMoment(now, *p.Gone)
		}},
	}
}
