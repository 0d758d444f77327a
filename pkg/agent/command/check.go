package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/agent"
	"g8s.host/gpu-scheduler/pkg/agent/examine"
	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/smi"
	"g8s.host/gpu-scheduler/pkg/agent/runtime"
	"g8s.host/gpu-scheduler/pkg/program"
)

// exitCannotCheck is the exit code if there is nothing to compare.
const exitCannotCheck = 2

// checked is the JSON of gpu-agent check.
type checked struct {
	// Inventory is the annotation g8s.host/gpu-inventory as the agent would write it.
	Inventory   string            `json:"inventory"`
	Labels      map[string]string `json:"labels"`
	Facts       []examine.Fact    `json:"facts"`
	Differences int               `json:"differences"`
}

func newCheckCommand(o *options) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Compare what the agent would say of this machine's cards with what nvidia-smi says",
		Long: "Print what the agent would say of this machine's cards beside what nvidia-smi says of them, and what differs. Nothing\n" +
			"is changed, no cluster is asked, and an agent may run meanwhile. Run it as root.\n\n" +
			"The exit code is 0 where both say the same, 1 where they differ or containers would get no card, and 2 where there\n" +
			"is nothing to compare: no driver, or no nvidia-smi.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return checkNode(cmd.Context(), o, output, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	o.addHardwareFlags(flags)
	flags.StringVarP(&output, "output", "o", "table", "Output format: table or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func checkNode(ctx context.Context, o *options, output string, stdout io.Writer) error {
	if output != "table" && output != "json" {
		return fmt.Errorf("--output is %q, want table or json", output)
	}
	library, err := o.openLibrary()
	if err != nil {
		return program.WithExitCode(exitCannotCheck, fmt.Errorf("%w; what nvidia-smi prints on this machine says whether it reaches the driver", err))
	}
	fleet, err := library.Read()
	if err != nil {
		return program.WithExitCode(exitCannotCheck, fmt.Errorf("asking the driver for its cards: %w", err))
	}
	machine, err := smi.QueryMachine(ctx, o.driverRoot)
	if err != nil {
		return program.WithExitCode(exitCannotCheck, fmt.Errorf("%w: run it by hand, and give --driver-root where the driver is installed elsewhere", err))
	}
	described := agent.Describe(fleet)
	inventory, err := described.Inventory.Encode()
	if err != nil {
		return err
	}
	facts := examine.Compare(&examine.AgentView{
		Driver: library.Driver(), Fleet: fleet, Health: described.Health, Labels: described.Labels, Specs: collectSpecs(library, fleet),
		Runtime: runtimeText(ctx, o.agent.RuntimeEndpoint), MPS: mpsText(o.agent.MPS),
	}, &machine)
	different := len(examine.Differences(facts))
	if output == "json" {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(checked{Inventory: inventory, Labels: described.Labels, Facts: facts, Differences: different})
	} else {
		err = printFacts(stdout, facts)
	}
	if err == nil && different > 0 {
		err = program.WithExitCode(1, fmt.Errorf("%d differences", different))
	}
	return err
}

// collectSpecs returns the CDI spec of each GPU or slice.
func collectSpecs(library hardware.Library, fleet hardware.Fleet) map[string]examine.Spec {
	found := map[string]examine.Spec{}
	add := func(uuid string) {
		edits, err := library.Edits([]string{uuid})
		if err != nil {
			found[uuid] = examine.Spec{Refused: err.Error()}
			return
		}
		spec := examine.Spec{Source: library.Source(uuid), Mounts: len(edits.Mounts)}
		for _, node := range edits.DeviceNodes {
			spec.Nodes = append(spec.Nodes, node.Path)
		}
		found[uuid] = spec
	}
	for i := range fleet.GPUs {
		if card := &fleet.GPUs[i]; !card.MIG {
			add(card.UUID)
		}
		for _, slice := range fleet.GPUs[i].Slices {
			add(slice.UUID)
		}
	}
	return found
}

func runtimeText(ctx context.Context, endpoint string) string {
	client, err := runtime.New(endpoint)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = client.Close() }()
	if path, unix := strings.CutPrefix(endpoint, "unix://"); unix {
		if _, err := os.Stat(path); err != nil {
			return "none at " + endpoint
		}
	}
	switch unfit, err := client.UnfitReason(ctx); {
	case err != nil:
		return err.Error()
	case unfit != "":
		return unfit
	}
	return endpoint + " can give containers cards"
}

func mpsText(mps agent.MPS) string {
	if mps.Folder == "" {
		return "not used (--mps-dir)"
	}
	if _, err := os.Stat(filepath.Join(mps.Folder, "pipe", "control")); err != nil {
		return "no control daemon: " + err.Error()
	}
	return "a control daemon listens in " + mps.Folder
}

// printFacts prints one line for each fact, and repeats those that differ.
func printFacts(out io.Writer, facts []examine.Fact) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	of := ""
	for _, fact := range facts {
		if fact.Of != of {
			of = fact.Of
			fmt.Fprintf(w, "%s\tAGENT\tNVIDIA-SMI\t\n", of)
		}
		mark := ""
		if fact.Differs {
			mark = "DIFFERS"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", fact.Name, fact.Agent, fact.SMI, mark)
	}
	different := examine.Differences(facts)
	for _, fact := range different {
		fmt.Fprintf(w, "DIFFERS: %s, %s: the agent says %q, nvidia-smi %q\n", fact.Of, fact.Name, fact.Agent, fact.SMI)
	}
	if len(different) == 0 {
		fmt.Fprintln(w, "No differences.")
	}
	return errors.Join(w.Flush())
}
