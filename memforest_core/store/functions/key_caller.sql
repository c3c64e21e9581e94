-- Whose key has this hash, in whichever tenant: a request knows its tenant only by its key. Nobody can ask for hashes.
CREATE OR REPLACE FUNCTION memforest.key_caller(hash bytea)
RETURNS TABLE (tenant_id text, key_id uuid, name text, scope text, owners text, requests_per_minute integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = memforest, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own text[] := CASE WHEN pg_has_role(session_user, 'memforest_limited', 'MEMBER')
                        AND NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user)
                       THEN memforest.granted_tenants() END;
BEGIN
    PERFORM set_config('memforest.across', 'on', true);
    RETURN QUERY SELECT k.tenant_id, k.key_id, k.name, k.scope, k.owners, k.requests_per_minute
                   FROM api_key k
                  WHERE k.secret_hash = hash AND k.revoked_at IS NULL
                    AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp()) AND (own IS NULL OR k.tenant_id = ANY(own));
    PERFORM set_config('memforest.across', '', true);
END $$;

REVOKE ALL ON FUNCTION memforest.key_caller(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memforest.key_caller(bytea) TO memforest_service, memforest_limited;
