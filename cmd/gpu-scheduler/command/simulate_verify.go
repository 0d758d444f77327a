package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/simulate/recording"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

const verifyLong = `Make the decisions of a recording again, one by one on what the cluster was like then, and
say how many come out the same: the node and every card of pods that were placed, and
pods for which no place was found. With the configuration of the scheduler that made the
recording, nearly all should; with another one, it is the share of decisions that would
have been others.`

const verifyExample = `  gpu-scheduler simulate verify --recording week.jsonl.gz
  gpu-scheduler simulate verify --recording week.jsonl.gz --policy proposed.yaml -o json`

func newVerifyCommand() *cobra.Command {
	s := &simulation{}
	cmd := &cobra.Command{
		Use:     "verify --recording FILE",
		Short:   "Make the decisions of a recording again, and compare",
		Long:    verifyLong,
		Example: verifyExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.out, s.progress = cmd.OutOrStdout(), cmd.ErrOrStderr()
			silenceLogs()
			return reportError(cmd, s.runVerify(cmd.Context()))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.recording, "recording", "", "What gpu-scheduler simulate record wrote")
	s.addConfigFlags(flags)
	flags.StringVarP(&s.output, "output", "o", "table", "Output: table or json")
	return cmd
}

func (s *simulation) runVerify(ctx context.Context) error {
	if s.output != "table" && s.output != "json" {
		return fmt.Errorf("--output is %q, want table or json", s.output)
	}
	rec, err := s.readRecording()
	if err != nil {
		return err
	}
	candidates, err := s.readCandidates()
	if err != nil {
		return err
	}
	var comparisons []*simulate.Comparison
	for _, candidate := range candidates {
		bar := newProgressBar(s.progress, candidate.Name, len(rec.Events))
		comparison, err := simulate.Verify(ctx, rec, candidate, simulate.Options{
			Seed: s.seed, Progress: func(int) { _ = bar.Add(1) }, // a bar that cannot be drawn is no reason to stop
		})
		if err != nil {
			return fmt.Errorf("verifying %s: %w", candidate.Name, err)
		}
		comparisons = append(comparisons, comparison)
	}
	if s.output == "json" {
		encoder := json.NewEncoder(s.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"comparisons": comparisons})
	}
	return writeComparisons(s.out, comparisons)
}

// maxDifferences is how many differences the table shows.
const maxDifferences = 10

func writeComparisons(to io.Writer, comparisons []*simulate.Comparison) error {
	var out bytes.Buffer
	for _, c := range comparisons {
		fmt.Fprintf(&out, "%s: %.2f %% of the decisions come out the same\n", c.Name, c.ReproducedPercent)
		fmt.Fprintf(&out, "  %d of %d placements, on the same node and cards; the node is the same for %d\n", c.SamePlace, c.Placements, c.SameNode)
		fmt.Fprintf(&out, "  %d of %d refusals\n", c.SameRefusals, c.Refusals)
		if c.JustLeft > 0 {
			fmt.Fprintf(&out, "  %d of these only beside pods that left before the refusal was reported\n", c.JustLeft)
		}
		for i, d := range c.Differences {
			if i == maxDifferences {
				fmt.Fprintf(&out, "  and %d more differences, see -o json\n", len(c.Differences)-i)
				break
			}
			fmt.Fprintf(&out, "  %s: recorded %s, simulated %s\n", d.Pod, describePlace(d.Recorded), describePlace(d.Simulated))
		}
	}
	_, err := to.Write(out.Bytes())
	return err
}

func describePlace(d simulate.Decision) string {
	switch {
	case d.Node == "":
		return "nowhere"
	case d.Devices == "":
		return d.Node
	}
	return d.Node + " " + d.Devices
}

func (s *simulation) readRecording() (*recording.Recording, error) {
	if s.recording == "" {
		return nil, errors.New("--recording is missing: name a file that gpu-scheduler simulate record wrote")
	}
	data, err := trace.Read(s.recording)
	if err != nil {
		return nil, fmt.Errorf("reading --recording: %w", err)
	}
	rec, err := recording.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading --recording %s: %w", s.recording, err)
	}
	return rec, nil
}
