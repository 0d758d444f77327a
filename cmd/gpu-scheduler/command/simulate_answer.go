package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

// newAnswerCommand is for programs: gpuctl and its server run it to find out where a job would go.
func newAnswerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "answer",
		Short:  "Say where a job would go, to a program that asks on standard input",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			silenceLogs()
			_ = runInBackground() // it answers all the same, beside the requests that others make meanwhile
			return reportError(cmd, answerQuestion(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout()))
		},
	}
}

func answerQuestion(ctx context.Context, in io.Reader, out io.Writer) error {
	question := &whatif.Question{}
	if err := json.NewDecoder(in).Decode(question); err != nil {
		return fmt.Errorf("reading the question: %w", err)
	}
	s := &simulation{progress: io.Discard}
	cfg, err := s.readConfig("")
	if err != nil {
		return err
	}
	if question.Policy != "" {
		if err := simulate.SetPolicy(cfg, []byte(question.Policy)); err != nil {
			return fmt.Errorf("reading the scoring policy of the cluster: %w", err)
		}
	}
	outcome, err := simulate.Answer(ctx, question, simulate.Candidate{Name: configName(""), Config: cfg})
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(outcome)
}
