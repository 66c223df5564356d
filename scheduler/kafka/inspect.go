package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errNoAnswer says: no broker can be asked now, but a broker may come later.
var errNoAnswer = errors.New("no broker answers")

// inspect asks the brokers whether the topics exist, and how long a batch for the output and
// dead-letter topics may be.
func (b *Bridge) inspect(ctx context.Context) (largest map[string]int32, err error) {
	client, err := b.connect()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := b.topicsExist(ctx, client); err != nil {
		return nil, err
	}
	return b.largestBatches(ctx, client), nil
}

// topicsExist returns an error if something is wrong with the topics, the brokers refuse the bridge, or
// no broker answers.
func (b *Bridge) topicsExist(ctx context.Context, client *kgo.Client) error {
	ask := kmsg.NewPtrMetadataRequest()
	for _, name := range []string{b.config.Input, b.config.Output, b.config.DeadLetters} {
		if name != "" {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = &name
			ask.Topics = append(ask.Topics, t)
		}
	}
	answer, err := ask.RequestWith(ctx, client)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return ctx.Err()
		}
		if why := refusal(err); why != nil {
			return why
		}
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	var faults []error
	for i := range answer.Topics {
		name := *answer.Topics[i].Topic
		switch err := kerr.ErrorForCode(answer.Topics[i].ErrorCode); {
		case err == nil, kerr.IsRetriable(err) && !errors.Is(err, kerr.UnknownTopicOrPartition):
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			faults = append(faults, fmt.Errorf("topic %s doesn't exist; create it, with the partitions that you want", name))
		default:
			faults = append(faults, fmt.Errorf("topic %s: %w", name, b.config.advised(name, err)))
		}
	}
	return errors.Join(faults...)
}

// refusal is the error with advice, if waiting is useless because broker and bridge don't accept one
// another. For the remaining errors refusal is nil.
func refusal(err error) error {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("a broker's certificate can't be trusted; %s: %w", untrusted(err), err)
	}
	answered, ok := errors.AsType[*kerr.Error](err)
	if !ok || answered.Retriable {
		return nil
	}
	switch answered.Code {
	case kerr.SaslAuthenticationFailed.Code:
		return fmt.Errorf("the brokers refuse the login; check CHRONOS_KAFKA_USER and CHRONOS_KAFKA_PASSWORD, and that the brokers know them for CHRONOS_KAFKA_SASL: %w", err)
	case kerr.UnsupportedSaslMechanism.Code:
		return fmt.Errorf("the brokers refuse the login; set CHRONOS_KAFKA_SASL to a mechanism that they have: %w", err)
	case kerr.IllegalSaslState.Code:
		return fmt.Errorf("the brokers want no login at this port; give another in CHRONOS_KAFKA_BROKERS, or unset CHRONOS_KAFKA_SASL: %w", err)
	}
	return fmt.Errorf("the brokers refuse: %w", err)
}

// untrusted is advice about a certificate.
func untrusted(err error) (advice string) {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "set CHRONOS_KAFKA_CA_FILE to a PEM file of the authority that it comes from"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "call brokers as their certificates do, in CHRONOS_KAFKA_BROKERS and in their own advertised.listeners"
	}
	return "that broker needs another one"
}

// advised is an error about a topic or the group, with advice if a permission is missing.
func (c *Config) advised(topic string, err error) error {
	output := topic == c.Output || topic == c.DeadLetters
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("grant Read on group %s to the bridge's user, or set CHRONOS_KAFKA_GROUP to a group that it may read: %w", c.Group, err)
	case output && (errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed)): // the second if the user may write no topic
		return fmt.Errorf("grant Write on topic %s to the bridge's user: %w", topic, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("grant Read on topic %s to the bridge's user: %w", c.Input, err)
	}
	return err
}

// largestBatches is max.message.bytes of the topics, as far as readable.
func (b *Bridge) largestBatches(ctx context.Context, client *kgo.Client) map[string]int32 {
	const setting = "max.message.bytes"
	ask := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range []string{b.config.Output, b.config.DeadLetters} {
		if topic != "" {
			resource := kmsg.NewDescribeConfigsRequestResource()
			resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{setting}
			ask.Resources = append(ask.Resources, resource)
		}
	}
	answer, err := ask.RequestWith(ctx, client)
	if err != nil {
		return nil
	}
	largest := make(map[string]int32)
	for i := range answer.Resources {
		r := &answer.Resources[i]
		for _, c := range r.Configs {
			if c.Name != setting || c.Value == nil {
				continue
			}
			if n, err := strconv.ParseInt(*c.Value, 10, 32); err == nil && n > 0 {
				largest[r.ResourceName] = int32(n)
			}
		}
	}
	return largest
}
