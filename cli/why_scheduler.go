package cli

import (
	"context"

	"github.com/spf13/pflag"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	explainclient "g8s.host/gpu-scheduler/pkg/explain/client"
)

// schedulerOptions say where the scheduler serves its records.
type schedulerOptions struct{ explainclient.Options }

func (o *schedulerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Address, "scheduler", "", "Address of the scheduler's explanations, such as https://localhost:10260. "+
		"Your credentials of the kubeconfig are sent there")
	flags.StringVar(&o.CA, "scheduler-ca", "", "File with the certificate that the scheduler's is signed by")
	flags.BoolVar(&o.Insecure, "scheduler-insecure-skip-tls-verify", false, "Accept any certificate of the scheduler")
}

func (o *schedulerOptions) validateAddress() error {
	if o.Address == "" {
		return nil
	}
	if err := o.Validate(); err != nil {
		return usageErrorf("--scheduler: %w", err)
	}
	return nil
}

// addRecords adds the scheduler's records of a job to the facts. If the scheduler does not answer, the diagnosis continues without them, with a
// warning.
func (o *whyOptions) addRecords(ctx context.Context, facts *diagnosis.Facts) error {
	if o.scheduler.Address == "" {
		return nil
	}
	config, err := o.factory.config()
	if err != nil {
		return err
	}
	scheduler, err := explainclient.New(config, o.scheduler.Options)
	if err != nil {
		return err
	}
	records, err := scheduler.Job(ctx, facts.Job.Namespace, facts.Job.Name)
	if err != nil {
		o.factory.IO.printErr("warning: the scheduler's records are left out: %v", err)
		return nil
	}
	facts.AddRecords(records)
	return nil
}
