package spot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Cloud is a cloud account as one SpotPool sees it: only the machines with the tags of that SpotPool. Errors are [Error]s, or mean that the answer
// was lost.
type Cloud interface {
	// Launch buys a machine and returns its ID in the cloud. The same token buys the same machine.
	Launch(ctx context.Context, order Order) (instance string, err error)
	// List returns all machines with the tags, and those of the known ones that the cloud finds without them. Ended machines may be missing.
	List(ctx context.Context, known []string) ([]Instance, error)
	// Terminate ends machines. Machines that have already ended are no error.
	Terminate(ctx context.Context, instances []string) error
}

// Owner identifies the owner of machines in their tags.
type Owner struct {
	// Cluster is the UID of the cluster, Pool the name of the SpotPool.
	Cluster, Pool string
}

// Account is the input for connecting to a cloud.
type Account struct {
	Owner    Owner
	Provider g8s.SpotProvider
	Template g8s.MachineTemplate
	// Labels are those of the nodes.
	Labels map[string]string
	// Credentials and UserData are the values of Secrets.
	Credentials map[string]Secret
	UserData    Secret
}

// Connect creates a Cloud from an account, without calling the cloud.
type Connect func(Account) (Cloud, error)

// Secret is a value that is never shown: printed, logged or encoded it is a placeholder.
type Secret struct{ value string }

// NewSecret hides a value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value.
func (s Secret) Reveal() string { return s.value }

// Trimmed returns the value without the final newline of files.
func (s Secret) Trimmed() string { return strings.TrimSpace(s.value) }

const hidden = "[hidden]"

// String shows the placeholder, and so do GoString, Format and MarshalText.
func (Secret) String() string { return hidden }

// GoString shows the placeholder.
func (Secret) GoString() string { return hidden }

// Format shows the placeholder, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText shows the placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Order is a machine to buy.
type Order struct {
	// Machine is its name. Token prevents buying it twice: at most 64 ASCII characters.
	Machine, Token string
	// InstanceType and Zone say what to buy and where.
	InstanceType, Zone string
}

// Instance is a machine as the cloud has it.
type Instance struct {
	ID string
	// Machine is the name under which it was bought, from its tag.
	Machine            string
	InstanceType, Zone string
	PrivateIP          string
	// PublicIP is its public address, "" while it has none.
	PublicIP string
	// Created is when the cloud created it, zero if unknown.
	Created time.Time
	State   InstanceState
	// Interruption is when the cloud will reclaim it, if announced.
	Interruption time.Time
}

// InstanceState is the state of a machine in the cloud.
type InstanceState int

// The states of machines in a cloud.
const (
	// Starting: the machine does not run yet.
	Starting InstanceState = iota
	Running
	// Stopping: it is shutting down. Ended: it has ended and costs nothing.
	Stopping
	Ended
	// Broken: it could not be started. Halted: it was shut down and still costs money. Both must be terminated.
	Broken
	Halted
)

// Kind classifies cloud errors by their consequences.
type Kind int

// The kinds of errors.
const (
	// Lost: it is unknown whether the call took effect.
	Lost Kind = iota
	// SoldOut: the zone has no such machine, or the quota is exhausted. Refused: the cloud does not sell it in this form. Another type or zone may
	// work.
	SoldOut
	Refused
	// Throttled: too many requests. Denied: the account lacks the right, or cannot pay.
	Throttled
	Denied
)

// Error is an error of a cloud, in our own words: the cloud's text may repeat its input.
type Error struct {
	Kind Kind
	// Code is the cloud's code. Text is a more specific meaning than the kind's, if known.
	Code, Text string
}

func (e *Error) Error() string {
	text := cmp.Or(e.Text, e.Kind.String())
	if e.Code == "" {
		return text
	}
	return text + " (" + e.Code + ")"
}

// String says what an error means.
func (k Kind) String() string {
	switch k {
	case SoldOut:
		return "sold out, or beyond the quota"
	case Refused:
		return "the cloud refuses such a machine"
	case Throttled:
		return "the cloud was asked too often"
	case Denied:
		return "the account may not do that, or cannot pay for it: see the Secret credentialsSecret"
	}
	return "the cloud's answer was lost"
}

// kindOf returns the kind of an error. Other errors than [Error] leave the outcome unknown.
func kindOf(err error) Kind {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal.Kind
	}
	return Lost
}

// errorText returns the presentable text of an error.
func errorText(err error) string {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal.Error()
	}
	return Lost.String()
}
