package kafkalog

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) sign(t *testing.T, usage x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func secured(t *testing.T, opts ...kfake.Opt) []string {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, "there")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

// uses appends and reads a record.
func uses(t *testing.T, c Config) error {
	t.Helper()
	l, err := Open(c)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := l.Append(ctx, "there", 0, []Record{{Key: []byte("k"), Value: []byte("v")}}); err != nil {
		return err
	}
	n := 0
	_, _, err = l.Read(ctx, "there", 0, 0, 1<<20, time.Second, func(Record) error { n++; return nil })
	if err == nil && n == 0 {
		return fmt.Errorf("nothing to read")
	}
	return err
}

// refusedWith checks every operation that meets the refusal: the class that an
// operator has to see, and what to check.
func refusedWith(t *testing.T, c Config, want string) {
	t.Helper()
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for op, f := range map[string]func(context.Context) error{
		"ping":   func(ctx context.Context) error { return l.Ping(ctx) },
		"bounds": func(ctx context.Context) error { _, _, err := l.Bounds(ctx, "there", 0); return err },
		"read": func(ctx context.Context) error {
			_, _, err := l.Read(ctx, "there", 0, 0, 1<<20, 0, func(Record) error { return nil })
			return err
		},
		"append": func(ctx context.Context) error {
			_, err := l.Append(ctx, "there", 0, []Record{{Value: []byte("v")}})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := f(ctx)
		cancel()
		if err == nil || KindOf(err) != KindOther || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: kind %d, %v; want kind 0 and %q", op, KindOf(err), err, want)
		}
	}
}

func TestLogin(t *testing.T) {
	brokers := secured(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "p", "geheim"),
		kfake.Superuser("SCRAM-SHA-256", "s2", "geheim"), kfake.Superuser("SCRAM-SHA-512", "s5", "geheim"))
	for _, in := range []Login{{"plain", "p", "geheim"}, {"scram-sha-256", "s2", "geheim"}, {"scram-sha-512", "s5", "geheim"}} {
		t.Run(in.Mechanism, func(t *testing.T) {
			if err := uses(t, Config{Brokers: brokers, Login: in}); err != nil {
				t.Error(err)
			}
			in.Password = "falsch"
			refusedWith(t, Config{Brokers: brokers, Login: in}, "check user name and password")
			in.Username = "nobody"
			refusedWith(t, Config{Brokers: brokers, Login: in}, "check user name and password")
		})
	}
	for _, c := range []Config{
		{Brokers: brokers, Login: Login{Mechanism: "kerberos", Password: "geheim"}},
		{Brokers: brokers, Login: Login{Mechanism: "scram-sha-256", Username: "\x00", Password: "geheim"}},
	} {
		if l, err := Open(c); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%v: %v %v", c.Login, l, err)
		}
	}
	secret := Login{"plain", "p", "geheim"}
	if out := fmt.Sprintf("%v %+v %#v", secret, Config{Login: secret}, secret); strings.Contains(out, "geheim") {
		t.Errorf("printed: %s", out)
	}
}

// plainText answers everything in plain text.
func plainText(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("welcome to another service"))
			_ = c.Close()
		}
	}()
	return listener.Addr().String()
}

func TestTLS(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	server := &tls.Config{Certificates: []tls.Certificate{ours.sign(t, x509.ExtKeyUsageServerAuth)}, MinVersion: tls.VersionTLS12}
	brokers := secured(t, kfake.TLS(server))
	if err := uses(t, Config{Brokers: brokers, TLS: &tls.Config{RootCAs: ours.pool, MinVersion: tls.VersionTLS12}}); err != nil {
		t.Error(err)
	}
	refusedWith(t, Config{Brokers: brokers, TLS: &tls.Config{RootCAs: others.pool, MinVersion: tls.VersionTLS12}}, "check TRAWL_KAFKA_TLS_CA_FILE")
	refusedWith(t, Config{Brokers: []string{plainText(t)}, TLS: &tls.Config{RootCAs: ours.pool, MinVersion: tls.VersionTLS12}}, "does not speak TLS")
}

func TestClientCertificate(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	server := &tls.Config{
		Certificates: []tls.Certificate{ours.sign(t, x509.ExtKeyUsageServerAuth)}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.pool,
	}
	brokers := secured(t, kfake.TLS(server))
	client := func(certs ...tls.Certificate) Config {
		return Config{Brokers: brokers, TLS: &tls.Config{RootCAs: ours.pool, Certificates: certs, MinVersion: tls.VersionTLS12}}
	}
	if err := uses(t, client(ours.sign(t, x509.ExtKeyUsageClientAuth))); err != nil {
		t.Error(err)
	}
	refusedWith(t, client(), "check TRAWL_KAFKA_TLS_CERT_FILE")
	refusedWith(t, client(others.sign(t, x509.ExtKeyUsageClientAuth)), "check TRAWL_KAFKA_TLS_CERT_FILE")
}

func TestACL(t *testing.T) {
	brokers := secured(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "weak", "geheim"))
	l, err := Open(Config{Brokers: brokers, Login: Login{"plain", "weak", "geheim"}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, _, err = l.Read(t.Context(), "there", 0, 0, 1<<20, 0, func(Record) error { return nil })
	if KindOf(err) != KindOther || !strings.Contains(err.Error(), "check the ACLs of the topic") {
		t.Errorf("read: kind %d, %v", KindOf(err), err)
	}
}
